"""The classes of torch.nn that are no layer of the table: those that other passes serve, and those that are refused."""

# Read by the passes over module classes.
STRUCTURE = {
    "torch.nn.Module": "a class of the script's own: a Flax module",
    "torch.nn.Sequential": "nn.Sequential",
    "torch.nn.ModuleList": "a list of modules",
    "torch.nn.ModuleDict": "a dict of modules",
    "torch.nn.ParameterList": "a list of parameters",
    "torch.nn.ParameterDict": "a dict of parameters",
    "torch.nn.DataParallel": "the model itself: arrays are sharded over devices instead",
}

# A layer that is refused, and why. The code is MIG202.
REFUSED = {
    "torch.nn.AdaptiveLogSoftmaxWithLoss": "its clusters are chosen by the data, so that shapes depend on values",
    "torch.nn.Container": "an old name of torch.nn.Module",
    "torch.nn.CrossMapLRN2d": "a layer of torch's past; torch.nn.LocalResponseNorm is known",
    "torch.nn.FractionalMaxPool2d": "its windows are drawn at random, by torch's generator",
    "torch.nn.FractionalMaxPool3d": "its windows are drawn at random, by torch's generator",
    "torch.nn.LinearCrossEntropyLoss": "a layer and a loss in one",
    "torch.nn.MultiLabelMarginLoss": "its targets end at the first -1",
    "torch.nn.NLLLoss2d": "an old name of torch.nn.NLLLoss",
    "torch.nn.RNNBase": "what nn.RNN, nn.LSTM and nn.GRU have in common, which are known",
    "torch.nn.RNNCellBase": "what the recurrent cells have in common, which are known",
    "torch.nn.TripletMarginWithDistanceLoss": "calls a function that is passed to it",
}
