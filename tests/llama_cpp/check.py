#!/usr/bin/env python3
"""Compare with llama.cpp itself: perplexities of files, and the time that quantizing takes.

Not part of the test run. It needs NumPy, and a folder with libllama and libggml as shared libraries,
of a release or of a package that brings them built (such as npm's @node-llama-cpp/linux-x64), on
64-bit Linux or macOS:

    check.py LIBS perplexity TEXT SMIDGEN MODEL...   each perplexity beside that of `smidgen`
    check.py LIBS quantize SMIDGEN IN TYPE...        seconds to make each type, beside `smidgen`

Exit status 1: a perplexity differs by more than 0.5 %.
"""

import ctypes as c
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

# Numbers of llama_ftype.
FILE_TYPES = {"Q8_0": 7, "Q4_0": 2, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18}
CONTEXT = 512
THREADS = 2


class Params(c.Structure):
    """Any of llama.cpp's structs of parameters, whose fields change with its versions. It is longer
    than they are: they come and go by value in memory, where what is behind them does not matter."""

    _fields_ = [("words", c.c_uint64 * 64)]

    def set_i32(self, offset, value):
        c.c_int32.from_buffer(self, offset).value = value


class Batch(c.Structure):
    _fields_ = [
        ("n_tokens", c.c_int32),
        ("token", c.POINTER(c.c_int32)),
        ("embd", c.c_void_p),
        ("pos", c.POINTER(c.c_int32)),
        ("n_seq_id", c.POINTER(c.c_int32)),
        ("seq_id", c.POINTER(c.POINTER(c.c_int32))),
        ("logits", c.POINTER(c.c_int8)),
    ]


def load(folder):
    """libllama, with the libraries that it needs."""
    folder = pathlib.Path(folder).resolve()

    def find(name):
        found = [path for path in folder.rglob(f"{name}*") if ".so" in path.name or ".dylib" in path.name]
        if not found:
            sys.exit(f"check.py: no {name} in {folder}")
        return min(found, key=lambda path: len(path.name))

    c.CDLL(str(find("libggml-base.")), c.RTLD_GLOBAL)
    ggml = c.CDLL(str(find("libggml.")), c.RTLD_GLOBAL)
    lib = c.CDLL(str(find("libllama.")))
    silent = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda *_: None)
    lib.silent = silent
    lib.llama_log_set(silent, None)
    if hasattr(ggml, "ggml_backend_load_all_from_path"):
        ggml.ggml_backend_load_all_from_path(str(find("libggml-base.").parent).encode())
    for name in ["llama_model_default_params", "llama_context_default_params", "llama_model_quantize_default_params"]:
        getattr(lib, name).restype = Params
    pointers = ["llama_model_load_from_file", "llama_init_from_model", "llama_model_get_vocab", "llama_get_memory"]
    for name in pointers:
        getattr(lib, name).restype = c.c_void_p
    lib.llama_model_load_from_file.argtypes = [c.c_char_p, Params]
    lib.llama_init_from_model.argtypes = [c.c_void_p, Params]
    lib.llama_model_get_vocab.argtypes = [c.c_void_p]
    lib.llama_get_memory.argtypes = [c.c_void_p]
    lib.llama_memory_clear.argtypes = [c.c_void_p, c.c_bool]
    lib.llama_vocab_n_tokens.argtypes = [c.c_void_p]
    lib.llama_vocab_bos.argtypes = [c.c_void_p]
    lib.llama_tokenize.argtypes = [
        c.c_void_p, c.c_char_p, c.c_int32, c.POINTER(c.c_int32), c.c_int32, c.c_bool, c.c_bool,
    ]
    lib.llama_batch_init.restype = Batch
    lib.llama_decode.argtypes = [c.c_void_p, Batch]
    lib.llama_get_logits.argtypes = [c.c_void_p]
    lib.llama_get_logits.restype = c.POINTER(c.c_float)
    lib.llama_set_n_threads.argtypes = [c.c_void_p, c.c_int32, c.c_int32]
    lib.llama_free.argtypes = [c.c_void_p]
    lib.llama_model_free.argtypes = [c.c_void_p]
    lib.llama_model_quantize.argtypes = [c.c_char_p, c.c_char_p, c.POINTER(Params)]
    lib.llama_model_quantize.restype = c.c_uint32
    lib.llama_backend_init()
    return lib


def perplexity(lib, path, text):
    """As llama-perplexity does it: chunks of the context, of which the second halves count."""
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    if not model:
        sys.exit(f"check.py: llama.cpp does not load {path}")
    params = lib.llama_context_default_params()
    for offset in [0, 4, 8]:  # n_ctx, n_batch, n_ubatch
        params.set_i32(offset, CONTEXT)
    context = lib.llama_init_from_model(model, params)
    lib.llama_set_n_threads(context, 1, 1)
    vocab = lib.llama_model_get_vocab(model)
    n_vocab, bos = lib.llama_vocab_n_tokens(vocab), lib.llama_vocab_bos(vocab)
    ids = (c.c_int32 * (len(text) + 8))()
    count = lib.llama_tokenize(vocab, text, len(text), ids, len(ids), True, False)
    batch = lib.llama_batch_init(CONTEXT, 0, 1)
    loss, predictions = 0.0, 0
    for start in range(0, count - CONTEXT + 1, CONTEXT):
        chunk = list(ids[start : start + CONTEXT])
        chunk[0] = bos
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        batch.n_tokens = CONTEXT
        for at, token in enumerate(chunk):
            batch.token[at], batch.pos[at] = token, at
            batch.n_seq_id[at], batch.seq_id[at][0], batch.logits[at] = 1, 0, 1
        if lib.llama_decode(context, batch) != 0:
            sys.exit(f"check.py: llama.cpp does not run {path}")
        logits = np.ctypeslib.as_array(lib.llama_get_logits(context), (CONTEXT, n_vocab))
        rows = logits[CONTEXT // 2 : -1].astype(np.float64)
        most = rows.max(axis=1, keepdims=True)
        totals = np.log(np.exp(rows - most).sum(axis=1)) + most[:, 0]
        wanted = rows[np.arange(len(rows)), chunk[CONTEXT // 2 + 1 :]]
        loss += float((totals - wanted).sum())
        predictions += len(rows)
    lib.llama_free(context)
    lib.llama_model_free(model)
    return math.exp(loss / predictions)


def check_perplexities(lib, text_path, smidgen, *models):
    text = pathlib.Path(text_path).read_bytes()
    worst = 0.0
    print("model\tllama.cpp\tsmidgen\tdifference")
    for model in models:
        theirs = perplexity(lib, model, text)
        line = [smidgen, "perplexity", "-m", model, "-f", text_path, "--json"]
        ours = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)["perplexity"]
        differs = ours / theirs - 1
        worst = max(worst, abs(differs))
        print(f"{model}\t{theirs:.4f}\t{ours:.4f}\t{differs:+.3%}", flush=True)
    return 0 if worst <= 0.005 else 1


def check_speed(lib, smidgen, path, *types):
    size = os.path.getsize(path)
    print("type\tllama.cpp s\tsmidgen s\tratio\tsmidgen MB/s of input")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        for name in types:
            out = os.path.join(folder, "out.gguf")
            params = lib.llama_model_quantize_default_params()
            params.set_i32(0, THREADS)
            params.set_i32(4, FILE_TYPES[name])
            best = [math.inf, math.inf]
            for _ in range(3):
                start = time.monotonic()
                if lib.llama_model_quantize(path.encode(), out.encode(), c.byref(params)) != 0:
                    sys.exit(f"check.py: llama.cpp does not quantize {path} to {name}")
                best[0] = min(best[0], time.monotonic() - start)
                line = [smidgen, "quantize", path, out, name, "-t", str(THREADS), "--force", "--quiet", "--no-pad"]
                start = time.monotonic()
                subprocess.run(line, check=True)
                best[1] = min(best[1], time.monotonic() - start)
            theirs, ours = best
            print(f"{name}\t{theirs:.2f}\t{ours:.2f}\t{ours / theirs:.2f}\t{size / ours / 1e6:.0f}", flush=True)
    return 0


def main():
    checks = {"perplexity": (check_perplexities, 6), "quantize": (check_speed, 6)}
    check, least = checks.get(sys.argv[2] if len(sys.argv) > 2 else "", (None, 0))
    if check is None or len(sys.argv) < least:
        sys.exit(__doc__)
    return check(load(sys.argv[1]), *sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
