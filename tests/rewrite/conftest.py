"""What is rewritten here is executed soon rather than well."""

from tests.compiling import compile_by_llvm_alone, soon_compiled

__all__ = ["soon_compiled"]

compile_by_llvm_alone()
