"""An index in a folder: segments of files that never change, and one file that names them.

    index.json                       the manifest, replaced in one step
    segments/s000007/                what commit 7 added (m000009: what a merge wrote)
        vectors.npy, items.arrow     a row for each picture, in the order of their ids
        removed-000008.npy           its removed rows, as commit 8 left them
        cells-, centroids-000009.npy, lists-000009.bin    its fast search
    model/                           the network

What a commit costs grows with what is added and removed, not with what is there.
"""
