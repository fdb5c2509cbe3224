# %% [markdown]
# # Frozen features with scikit-learn
#
# You have features, not pictures: learn a linear map to unit vectors in which items of one class
# are close, with `la.MetricLearner`, an estimator of scikit-learn.

# %%
import numpy as np

import lookalike as la

images = la.data.load("glyphs")  # here the features are pixels of characters, 16 x 16
chosen = np.flatnonzero((images.labels < 100) | (images.labels >= 2180))
X = np.stack([images.decode(i)[::2, ::2].ravel() / 255 for i in chosen])
y = images.labels[chosen]
seen, unseen = y < 100, y >= 2180
print(X.shape, "items and features; 100 characters train, 100 others test")

# %% [markdown]
# It has `fit`, `transform` and `score` (Recall@1), and works in pipelines and searches.

# %%
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

learner = la.MetricLearner(loss="multi-similarity", dim=64, start="lda", epochs=5, random_state=0)
pipeline = make_pipeline(StandardScaler(with_std=False), learner).fit(X[seen], y[seen])
print(learner)
print("Recall@1 on unseen characters:", round(pipeline.score(X[unseen], y[unseen]), 3))

# %% [markdown]
# Always look at what needs no training, on classes that were not seen.

# %%
from sklearn.decomposition import PCA

centred = X - X[seen].mean(0)
pca = PCA(64, random_state=0).fit(X[seen])
lda = la.MetricLearner(dim=64, start="lda", epochs=0, random_state=0).fit(centred[seen], y[seen])
for name, vectors in {
    "raw features": centred,
    "PCA": pca.transform(X),
    "LDA": lda.transform(centred),
    "learned": pipeline.transform(X),
}.items():
    scores = la.evaluate(vectors[unseen], y[unseen], ["recall@1", "map@r"])
    print(f"{name:13} Recall@1 {scores['recall@1']:.3f}   MAP@R {scores['map@r']:.3f}")
