from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import train_test_split, GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
import numpy as np, joblib

X, y = load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=.2, random_state=0, stratify=y)

model = Pipeline([
    ('scale', StandardScaler()),
    ('clf', LogisticRegression(max_iter=200)),
])
search = GridSearchCV(model, {'clf__C': [.1, 1, 10]}, cv=3, n_jobs=1)
search.fit(X_train, y_train)
pred = search.predict(X_test)
acc = (pred == y_test).mean().item()
print(f"accuracy {acc:.3f}", search.best_params_)

# partial fits look like a training loop
clf = SGDClassifier(loss="log_loss", random_state=0)
for epoch in range(3):
    perm = np.random.RandomState(epoch).permutation(len(X_train))
    for batch in np.array_split(perm, 4):
        clf.partial_fit(X_train[batch], y_train[batch], classes=np.unique(y))
    loss = -clf.predict_log_proba(X_test)[np.arange(len(y_test)), y_test].mean()
    print(epoch, loss.round(4), clf.coef_.T.shape, clf.coef_.flatten().max())
joblib.dump(search.best_estimator_, "/dev/null")
