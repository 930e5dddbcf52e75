"""The weights of the model, and the gradient of its loss by gradient.c."""

import ctypes
import os
import subprocess
import tempfile
import typing

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ_LEN = 64, 192, 5, 8, 4, 512, 512
KV = DIM // HEADS * KV_HEADS

# In the order of a llama2.c checkpoint; each [layer, output, input] where there are layers.
SHAPES = {
    "embedding": (VOCAB, DIM),
    "attention_norm": (LAYERS, DIM),
    "wq": (LAYERS, DIM, DIM),
    "wk": (LAYERS, KV, DIM),
    "wv": (LAYERS, KV, DIM),
    "wo": (LAYERS, DIM, DIM),
    "ffn_norm": (LAYERS, DIM),
    "w1": (LAYERS, HIDDEN, DIM),
    "w2": (LAYERS, DIM, HIDDEN),
    "w3": (LAYERS, HIDDEN, DIM),
    "final_norm": (DIM,),
}
MATRICES = ("wq", "wk", "wv", "wo", "w1", "w2", "w3")


def split(flat):
    """Views of the weights by name; `flat` may be an array or a tensor."""
    views, at = {}, 0
    for name, shape in SHAPES.items():
        count = int(np.prod(shape))
        views[name] = flat[at : at + count].reshape(shape)
        at += count
    return views


class Batch(typing.NamedTuple):
    """Sequences one after the other, and what is known of the token after each position."""

    lengths: np.ndarray  # of the sequences
    tokens: np.ndarray  # [position]
    targets: np.ndarray  # [position]: the token that came, or -1 for none
    ids: np.ndarray  # [position, count]: tokens whose groups have
    shares: np.ndarray  # [position, count]: these shares of the probability


class Gradient:
    """Compiles gradient.c for this machine and calls it."""

    COUNT = sum(int(np.prod(shape)) for shape in SHAPES.values())

    def __init__(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "gradient.so")
            flags = "-O3 -march=native -fno-math-errno -fno-trapping-math -shared -fPIC"
            source = os.path.join(HERE, "gradient.c")
            compiler = os.environ.get("CC", "gcc")
            subprocess.run(
                [compiler, *flags.split(), source, "-o", library, "-lm"], check=True
            )
            self.library = ctypes.CDLL(library)
        assert self.library.weight_count() == self.COUNT

    def run(self, flat, batch, groups=None, scale=1.0, gradient=None):
        """The losses of all positions; adds the gradient of their sum times `scale`.

        `groups` is a number for each token, by default its own: see gradient.c. While it runs,
        other threads of Python can.
        """
        if groups is None:
            groups = np.arange(VOCAB, dtype=np.int32)
        positions, count = batch.ids.shape
        assert batch.shares.shape == batch.ids.shape
        assert batch.tokens.shape == batch.targets.shape == (positions,)
        assert batch.lengths.sum() == positions
        assert not (batch.lengths % 4).any() and batch.lengths.max() <= SEQ_LEN
        assert flat.size == self.COUNT and groups.shape == (VOCAB,)
        assert gradient is None or gradient.size == self.COUNT

        def pointer(array, dtype):
            assert array.dtype == dtype and array.flags.c_contiguous
            return array.ctypes.data_as(ctypes.c_void_p)

        losses = np.empty(positions, np.float32)
        self.library.loss_and_gradient(
            pointer(flat, np.float32),
            None if gradient is None else pointer(gradient, np.float32),
            len(batch.lengths),
            pointer(batch.lengths, np.int32),
            pointer(batch.tokens, np.int32),
            pointer(groups, np.int32),
            pointer(batch.targets, np.int32),
            count,
            pointer(batch.ids, np.int32),
            pointer(batch.shares, np.float32),
            ctypes.c_float(scale),
            pointer(losses, np.float32),
        )
        return losses
