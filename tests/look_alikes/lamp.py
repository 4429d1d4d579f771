import time
# torch.nn.Linear(3, 2) in a comment is no use of torch
NOTE = """
import torch
model = torch.nn.Linear(3, 2).cuda()
"""

class Torch:
    def __init__(self, light = 1): self.light=light
    def manual_seed(self, n): return self
    def ones(self, *n): return [1]*n[0]
    def no_grad(self): return self
    def __enter__(self): return self
    def __exit__(self, *a): pass


torch = Torch()
torch.manual_seed(0)
with torch.no_grad():
    x = torch.ones(3)

def relu(x, torch=torch):
	return torch.ones(len(x))  

print(relu(x), NOTE.split("\n")[1], time.time() > 0)
