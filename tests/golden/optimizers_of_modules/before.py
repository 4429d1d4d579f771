"""Double Q-learning, where each network makes its own optimizer and loss, and an agent trains them."""

import numpy as np
import torch as T
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Memory:
    def __init__(self, size, shape):
        self.size = size
        self.count = 0
        self.states = np.zeros((size, *shape), dtype=np.float32)
        self.after = np.zeros((size, *shape), dtype=np.float32)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.ended = np.zeros(size, dtype=bool)

    def store(self, state, action, reward, after, ended):
        index = self.count % self.size
        self.states[index] = state
        self.actions[index] = action
        self.rewards[index] = reward
        self.after[index] = after
        self.ended[index] = ended
        self.count += 1

    def sample(self, batch_size):
        batch = np.random.choice(min(self.count, self.size), batch_size, replace=False)
        states, actions, rewards = self.states[batch], self.actions[batch], self.rewards[batch]
        after = self.after[batch]
        ended = self.ended[batch]
        return states, actions, rewards, after, ended


class QNetwork(nn.Module):
    def __init__(self, lr, shape, width, n_actions):
        super().__init__()
        self.lr = lr
        self.fc = nn.Linear(*shape, width)
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, n_actions)

        self.optimizer = optim.RMSprop(self.parameters(), lr=self.lr)
        self.loss = nn.MSELoss()
        self.device = T.device("cuda:0" if T.cuda.is_available() else "cpu")
        self.to(self.device)

    def forward(self, state):
        hidden = F.relu(self.fc(state))
        return self.value(hidden), self.advantage(hidden)


class Agent:
    def __init__(self, lr, shape, n_actions, batch_size=8, gamma=0.99, replace_every=5):
        self.batch_size, self.gamma, self.replace_every = batch_size, gamma, replace_every
        self.steps = 0
        self.memory = Memory(100, shape)
        self.q_eval = QNetwork(lr, shape, 32, n_actions)
        self.q_next = QNetwork(lr, shape, 32, n_actions)

    def choose_action(self, observation):
        state = T.tensor(np.array([observation])).to(self.q_eval.device)
        _, advantage = self.q_eval.forward(state)
        return T.argmax(advantage).item()

    def replace_target(self):
        if self.steps % self.replace_every == 0:
            self.q_next.load_state_dict(self.q_eval.state_dict())

    def learn(self):
        if self.memory.count < self.batch_size:
            return None
        self.q_eval.optimizer.zero_grad()
        self.replace_target()
        state, action, reward, after, ended = self.memory.sample(self.batch_size)
        states = T.tensor(state).to(self.q_eval.device)
        rewards = T.tensor(reward).to(self.q_eval.device)
        ends = T.tensor(ended).to(self.q_eval.device)
        actions = T.tensor(action).to(self.q_eval.device)
        states_ = T.tensor(after).to(self.q_eval.device)
        indices = np.arange(self.batch_size)
        value, advantage = self.q_eval.forward(states)
        value_, advantage_ = self.q_next.forward(states_)
        q_eval = (value + advantage - advantage.mean(dim=1, keepdim=True))[indices, actions]
        q_next = value_ + advantage_ - advantage_.mean(dim=1, keepdim=True)
        q_next[ends] = 0.0
        target = rewards + self.gamma * q_next.max(dim=1)[0]
        loss = self.q_eval.loss(q_eval, target.detach()).to(self.q_eval.device)
        loss.backward()
        self.q_eval.optimizer.step()
        self.steps += 1
        return loss.item()


if __name__ == "__main__":
    np.random.seed(0)
    T.manual_seed(0)
    agent = Agent(lr=5e-3, shape=[4], n_actions=2)
    observation = np.random.randn(4).astype(np.float32)
    for step in range(40):
        action = agent.choose_action(observation)
        after = np.random.randn(4).astype(np.float32)
        agent.memory.store(observation, action, float(after[0]) + action, after, step % 5 == 0)
        print(step, agent.learn())
        observation = after
