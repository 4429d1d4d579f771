from .classifier import Classifier
from .initialisation import init_weights

__all__ = ["Classifier", "init_weights"]
