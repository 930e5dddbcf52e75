"""Stories with their soft distributions, as sample_stories.rs writes them, and vocabularies."""

import struct

import numpy as np

TOP = 24
RECORD = np.dtype([("token", "<u2"), ("nll", "<f4"), ("top", "<u2", TOP), ("p", "<u2", TOP)])
BOS = 1


def read_tokenizer(path):
    """Texts of a llama2.c tokenizer.bin as bytes: byte tokens are that byte, BOS and EOS empty."""
    with open(path, "rb") as file:
        data = file.read()
    texts, at = [], 4
    while at < len(data):
        (length,) = struct.unpack_from("<i", data, at + 4)
        texts.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return [b"", b"", b""] + [as_byte(text) for text in texts[3:]]


def as_byte(text):
    if len(text) == 6 and text.startswith(b"<0x") and text.endswith(b">"):
        return bytes([int(text[3:5], 16)])
    return text


def stories(path, texts):
    """Yields the records and the text of each story that begins with a space, as nearly all do,
    and is UTF-8; the space is part of the text.

    The last record is that of the BOS which ended the story; a story without one was cut.
    """
    records = np.fromfile(path, RECORD)
    starts = np.flatnonzero(records["p"][:, 0] == 0)
    for start, end in zip(starts, [*starts[1:], len(records)]):
        story = records[start + 1 : end]
        text = b"".join(texts[token] for token in story["token"])
        try:
            text = text.decode()
        except UnicodeDecodeError:
            continue
        if text.startswith(" "):
            yield story, text
