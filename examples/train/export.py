"""Writes the averaged weights of train.py's checkpoint in llama2.c's legacy format, and beside them
what they say in float64: the logits that an engine must come near to."""

import argparse
import json
import struct

import numpy as np

import model
import records

ROPE_BASE = 10000.0
EPS = 1e-5
# Of this many tokens, the logits behind these.
TOKENS = 96
POSITIONS = (0, 31, 95)


def legacy(weights):
    """The bytes of a checkpoint."""
    # A vocabulary size above 0 says that the classifier is the embedding.
    header = struct.pack(
        "<7i",
        model.DIM,
        model.HIDDEN,
        model.LAYERS,
        model.HEADS,
        model.KV_HEADS,
        model.VOCAB,
        model.SEQ_LEN,
    )
    # Nobody reads the tables of RoPE, but the format has them.
    angles = rope_angles(model.SEQ_LEN)
    tables = np.cos(angles), np.sin(angles)
    return header + b"".join(part.astype("<f4").tobytes() for part in (weights, *tables))


def rope_angles(length):
    head_size = model.DIM // model.HEADS
    exponents = np.arange(0, head_size, 2) / head_size
    return np.outer(np.arange(length), ROPE_BASE**-exponents)


def logits(weights, tokens):
    """The logits behind every token, [token, vocabulary], in float64."""
    w = model.split(weights.astype(np.float64))
    length, head_size = len(tokens), model.DIM // model.HEADS
    turn = np.exp(1j * rope_angles(length))[:, None, :]
    future = np.triu(np.full((length, length), -np.inf), 1)

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight

    def heads(x):
        return x.reshape(length, -1, head_size)

    def rotate(x):
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    x = w["embedding"][tokens]
    for layer in range(model.LAYERS):
        h = norm(x, w["attention_norm"][layer])
        q = rotate(heads(h @ w["wq"][layer].T))
        k = rotate(heads(h @ w["wk"][layer].T))
        v = heads(h @ w["wv"][layer].T)
        k, v = (np.repeat(t, model.HEADS // model.KV_HEADS, 1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / head_size**0.5 + future
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", shares, v).reshape(length, -1) @ w["wo"][layer].T
        h = norm(x, w["ffn_norm"][layer])
        gate = h @ w["w1"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][layer].T)) @ w["w2"][layer].T
    return norm(x, w["final_norm"]) @ w["embedding"].T


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="what train.py wrote")
    parser.add_argument("stories", help="what retell.py wrote: for tokens that make sense")
    parser.add_argument("output", help="the .bin to write")
    parser.add_argument("logits", help="the .json with expected logits to write")
    args = parser.parse_args()
    weights = np.load(args.checkpoint)["average"]
    with open(args.output, "wb") as file:
        file.write(legacy(weights))

    tokens = np.load(args.stories, mmap_mode="r")["token"][:TOKENS].astype(int)
    assert tokens[0] == records.BOS
    rows = logits(weights, tokens)
    expected = [
        {"position": at, "logits": [round(x, 6) for x in rows[at].tolist()]}
        for at in POSITIONS
    ]
    with open(args.logits, "w", encoding="ascii") as file:
        json.dump({"ids": tokens.tolist(), "expected": expected}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
