import torch


def version():
    print "this is Python 2"
