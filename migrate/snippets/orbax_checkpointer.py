import jax
import orbax.checkpoint as ocp


def orbax_checkpointer():
    """Orbax for the process that calls it; it waits for no other one."""
    here = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=here, active_processes={here}, barrier_sync_key_prefix=f"process_{here}"
    )
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(multiprocessing_options=alone), multiprocessing_options=alone)
