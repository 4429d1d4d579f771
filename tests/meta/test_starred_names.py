"""What stars take from torch's modules is what the installed torch has."""

from migrate.known.starred import FILE
from tests.meta import starred_names


def test_the_file_is_fresh() -> None:
    assert FILE.read_text("utf-8") == starred_names.text()
