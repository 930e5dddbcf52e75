"""Spells sampled stories in the vocabulary of the new model, each place with the teacher's soft
distribution where both vocabularies have a token that begins there."""

import argparse
import re

import numpy as np

import records

NO_TARGET, HARD, SOFT, SOFT_REST = range(4)

# An input token and what is known of the one after it, which is the next element's. `kind`:
# NO_TARGET  nothing: the story was cut here
# HARD       no distribution: no token of the teacher begins here
# SOFT       `first` is how the token begins that the teacher drew; `ids` are how the likeliest
#            tokens begin that it might have drawn, `p` their probabilities times 65535
# SOFT_REST  the same, but it drew one that is not among the likeliest
PLACE = np.dtype(
    [
        ("token", "<u2"),
        ("kind", "<u2"),
        ("first", "<u2"),
        ("ids", "<u2", records.TOP),
        ("p", "<u2", records.TOP),
    ]
)


class Encoder:
    """SentencePiece's merges, for vocabularies in which a space only begins a token."""

    def __init__(self, texts):
        self.ids = {}
        for id, text in enumerate(texts):
            # A character's own token counts, not that of its byte.
            if id > 2 and not (id < 259 and text in self.ids):
                self.ids[text] = id
        assert not any(b" " in text[1:] for text in texts)
        self.bytes = {texts[id]: id for id in range(3, 259)}
        self.merges = {text: id for text, id in self.ids.items() if id >= 259}
        self.known = {}

    def encode(self, text):
        """The ids of a text, which begins with a space if that is to be there."""
        ids = []
        for word in re.findall(r" ?[^ ]+| ", text):
            known = self.known.get(word)
            if known is None:
                known = self.known[word] = self.encode_word(word)
            ids += known
        return ids

    def encode_word(self, word):
        parts = [character.encode() for character in word]
        while True:
            # Ids are in the order of scores, pieces before single characters.
            pairs = [
                (self.merges.get(a + b, 1 << 30), at)
                for at, (a, b) in enumerate(zip(parts, parts[1:]))
            ]
            best, at = min(pairs, default=(1 << 30, 0))
            if best == 1 << 30:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        ids = []
        for part in parts:
            if part in self.merges:
                ids.append(self.merges[part])
            else:
                ids += [self.bytes[bytes([byte])] for byte in part]
        return ids


def retell(paths, teacher_texts, texts):
    """Returns the places of all stories, one after the other, and what is known of each whole
    story: where it begins, its tokens, its characters, the loss of the teacher and its tokens."""
    encoder = Encoder(texts)
    lengths = np.array([len(text) for text in texts])
    teacher_lengths = np.array([len(text) for text in teacher_texts])
    beginnings = np.zeros(len(teacher_texts), np.uint16)
    for token, text in enumerate(teacher_texts):
        if token == records.BOS:
            beginnings[token] = records.BOS
        elif len(text) == 1:
            character = encoder.merges.get(text)
            beginnings[token] = encoder.bytes[text] if character is None else character
        elif text:
            beginnings[token] = encoder.encode(text.decode())[0]

    parts, whole, at = [], [], 0
    for path in paths:
        for story, text in records.stories(path, teacher_texts):
            ended = story["token"][-1] == records.BOS
            ids = np.array(encoder.encode(text))
            places = np.zeros(1 + len(ids), PLACE)
            places["token"][0] = records.BOS
            places["token"][1:] = ids
            begins = np.concatenate([[0], lengths[ids].cumsum()])
            teacher_begins = np.concatenate(
                [[0], teacher_lengths[story["token"]].cumsum()[:-1]]
            )
            record = np.searchsorted(teacher_begins, begins)
            record = np.minimum(record, len(story) - 1)
            both = teacher_begins[record] == begins
            drawn = story[record[both]]
            among = (drawn["top"] == drawn["token"][:, None]).any(1)
            places["kind"] = HARD
            places["kind"][both] = np.where(among, SOFT, SOFT_REST)
            places["first"][both] = beginnings[drawn["token"]]
            places["ids"][both] = beginnings[drawn["top"]]
            places["p"][both] = drawn["p"]
            if not ended:
                places["kind"][-1] = NO_TARGET
            else:
                whole.append((at, len(places), len(text) - 1, story["nll"].sum(), len(story)))
            parts.append(places)
            at += len(places)
    return np.concatenate(parts), whole


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", help="the teacher's tokenizer.bin")
    parser.add_argument("vocabulary", help="the tokenizer.bin of make_vocabulary.py")
    parser.add_argument("records", nargs="+", help="what sample_stories wrote")
    args = parser.parse_args()
    teacher_texts = records.read_tokenizer(args.teacher)
    texts = records.read_tokenizer(args.vocabulary)
    for path in args.records:
        places, _ = retell([path], teacher_texts, texts)
        np.save(path.removesuffix(".rec") + ".npy", places)


if __name__ == "__main__":
    main()
