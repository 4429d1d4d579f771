"""An actor and critic that is a module, and all that trains it as well: the optimizer, the data, the update."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

gamma = 0.98


class Walk:
    """A point that drifts, and is pushed to one side or the other."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.turn, self.state = 0, self.rng.uniform(-0.5, 0.5, 4).astype(np.float32)
        return self.state

    def step(self, action):
        self.turn += 1
        pushed = 0.9 * self.state + 0.1 * (2 * action - 1) + self.rng.uniform(-0.1, 0.1, 4)
        self.state = pushed.astype(np.float32)
        return self.state, float(1 - abs(self.state[0])), self.turn >= 12


class ActorCritic(nn.Module):
    """Learns from what it was told since it learnt last."""

    def __init__(self, states, actions, lr=2e-3, scale=10.0):
        super(ActorCritic, self).__init__()
        self.data = []
        self.updates = 0
        self.scale = scale

        self.fc1 = nn.Linear(states, 16)
        self.fc_pi = nn.Linear(16, actions)
        self.fc_v = nn.Linear(16, 1)
        self.optimizer = optim.Adam(self.parameters(), lr=lr)

    def pi(self, x, softmax_dim=0):
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc_pi(x), dim=softmax_dim)

    def v(self, x):
        return self.scale * self.fc_v(F.relu(self.fc1(x)))

    def put_data(self, transition):
        self.data.append(transition)

    def make_batch(self):
        s_lst, a_lst, r_lst, s_prime_lst, done_lst = [], [], [], [], []
        for s, a, r, s_prime, done in self.data:
            s_lst.append(s)
            a_lst.append([a])
            r_lst.append([r / self.scale])
            s_prime_lst.append(s_prime)
            done_lst.append([0.0 if done else 1.0])
        self.data = []
        states = torch.tensor(np.array(s_lst)), torch.tensor(np.array(s_prime_lst))
        return *states, torch.tensor(a_lst), torch.tensor(r_lst), torch.tensor(done_lst)

    def advantages(self, s, s_prime, r, done):
        with torch.no_grad():
            target = r + gamma * self.v(s_prime) * done
            return target, target - self.v(s)

    def train_net(self):
        s, s_prime, a, r, done = self.make_batch()
        target, advantage = self.advantages(s, s_prime, r, done)
        pi_a = self.pi(s, softmax_dim=1).gather(1, a)
        loss = (-torch.log(pi_a) * advantage + F.smooth_l1_loss(self.v(s), target)).mean()

        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        self.optimizer.step()
        self.updates += 1
        return loss.item()


def main():
    torch.manual_seed(0)
    env = Walk(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ActorCritic(4, 2).to(device)
    for episode in range(4):
        s, done, score = env.reset(), False, 0.0
        while not done:
            for _ in range(5):
                action = Categorical(model.pi(torch.from_numpy(s).to(device))).sample().item()
                s_prime, r, done = env.step(action)
                model.put_data((s, action, r, s_prime, done))
                s, score = s_prime, score + r
                if done:
                    break
            loss = model.train_net()
        print(f"{episode}: {score:.3f}, {model.updates} updates, {loss:.5f}")


if __name__ == "__main__":
    main()
