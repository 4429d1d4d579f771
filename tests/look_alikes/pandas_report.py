# -*- coding: utf-8 -*-
import os
import pandas as pd
import numpy as np


FRAME = pd.DataFrame({ 'group' : list('aabbc'), 'value':[1., 2., 3., np.nan, 5.] })


def summarise(frame: pd.DataFrame, by='group'):
    """mean, std and size of each group; `std` divides by N - 1 here, as in torch."""
    grouped = frame.groupby(by)['value']
    out = grouped.agg(['mean', 'std', 'size']).reset_index()
    out = out.sort_values('mean', ascending=False).squeeze()
    return out.where(out.notna(), 0)


def normalise(frame):
    values = frame['value'].to_numpy()
    values = values.reshape(-1, 1).repeat(2, axis=1)
    mask = ~np.isnan(values)
    frame = frame.assign(z=(frame.value - frame.value.mean()) / frame.value.std())
    frame['rank'] = frame.z.rank().fillna(0).astype(int)
    frame.loc[frame['rank'] > 2, 'z'] = 0
    return frame, values[mask].max()


def stack(frames):
    return pd.concat(frames, axis=0).drop_duplicates().T.unstack().sum()

def item(x): return x.item() if hasattr(x, 'item') else x

if __name__ == "__main__":
    frame, top = normalise(FRAME.copy())
    print(summarise(frame)); print(top, item(frame.z.sum()), stack([frame, frame]))
    print(frame.eval("z * 2").head(2).tolist(), frame.query("z > 0").index.size)
    frame.expanding().mean(numeric_only=True).cumsum().clip(lower=0).round(3)
    frame.to_csv(os.devnull)
    train, test = frame.sample(frac=.8, random_state=0), frame.tail(1)
    print(train.shape, test.shape, train.value.abs().any(), test.value.ne(0).all())
