import os

import jax


def join_hosts():
    """Joins the processes of a run, one for each host, where a launcher such as torchrun started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
