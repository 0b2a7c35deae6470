"""Models that `seq2seq export` wrote, in PyTorch: the translations of the program, and its log-probabilities.

    import seq2seq

    model = seq2seq.load("dates.safetensors")
    model.translate(["5 November 1994"])
    model.log_probabilities("5 November 1994", "1994-11-05")  # of each token of the target, and of its end

From a terminal:

    python seq2seq.py dates.safetensors "5 November 1994"  # or the lines of the standard input
    python seq2seq.py dates.safetensors --score            # SOURCE TAB TARGET on the standard input

It needs torch and safetensors. Recurrent models may have the ATTENTIONS below, Transformers `dot`.
"""

import argparse
import json
import math
import sys
import unicodedata

import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

FORMAT = 1
KEY = "attention-seq2seq"
PAD, BOS, EOS, UNK = range(4)
BATCH = 256
CELLS = {"Gru": nn.GRU, "Lstm": nn.LSTM}


def load(path, device="cpu"):
    """The model in a file of `seq2seq export`, ready to translate."""
    with safe_open(path, "pt", device=str(device)) as file:
        metadata = json.loads((file.metadata() or {}).get(KEY, "{}"))
        if (found := metadata.get("format")) != FORMAT:
            raise ValueError(f"{path}: expected a file of `seq2seq export` of format {FORMAT}, found {found}")
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    kind = {"rnn": Recurrent, "transformer": Transformer}[metadata["model"]["kind"]]
    with torch.device("meta"):  # without parameters of its own, which would be drawn at random
        model = kind(metadata)
    model.load_state_dict(tensors, assign=True)
    return model.eval()


class Vocabulary:
    """The tokens of one side and their ids; how a text is split into tokens, and tokens make a text."""

    def __init__(self, tokens, tokenization, unicode, subwords=None, has_tags=False):
        if tokenization not in ("chars", "spaces"):
            raise ValueError(f"the tokens of a text: expected chars or spaces, found {tokenization}")
        if unicode not in ("none", "nfc", "nfd"):
            raise ValueError(f"the normal form of a text: expected none, nfc or nfd, found {unicode}")
        self.tokens, self.tokenization, self.unicode, self.has_tags = tokens, tokenization, unicode, has_tags
        self.ids = {token: id for id, token in enumerate(tokens) if id > UNK}
        self.merges = None
        if subwords is not None:  # pairs of pieces, in the order in which they are joined
            self.merges = {tuple(pair): rank for rank, pair in enumerate(subwords["pieces"]["merges"])}

    def encode(self, text):
        text = text.strip(" \t\r\n")
        if self.unicode != "none":
            text = unicodedata.normalize(self.unicode.upper(), text)
        tags, text = self._tags(text) if self.has_tags else ([], text)
        words = [word for word in text.split(" ") if word]
        if self.merges is not None:
            tokens = tags + [piece for word in words for piece in self._pieces("▁" + word)]
        else:
            tokens = tags + (list(text) if self.tokenization == "chars" else words)
        for position, token in enumerate(tokens, 1):
            if token not in self.ids:
                raise ValueError(f"unknown token {token!r} at position {position}")
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        is_apart = self.tokenization == "spaces" and self.merges is None
        text = (" " if is_apart else "").join(self.tokens[id] for id in ids)
        if self.merges is not None:
            text = text.replace("▁", " ").removeprefix(" ")
        return unicodedata.normalize("NFC", text) if self.unicode == "nfd" else text

    def _pieces(self, word):
        """A word's subwords: its characters, of which the pairs that come first among the merges are joined first."""
        pieces = list(word)
        while known := [pair for pair in zip(pieces, pieces[1:]) if pair in self.merges]:
            first, joined = min(known, key=self.merges.get), []
            for piece in pieces:
                if joined and (joined[-1], piece) == first:
                    joined[-1] += piece
                else:
                    joined.append(piece)
            pieces = joined
        return pieces

    @staticmethod
    def _tags(text):
        """The tags before a source, each a token with its `;`, and the source: `V;PST go` or `V;PST` TAB `go`."""
        tags, divider, source = text.partition("\t")
        if not divider:
            tags, divider, source = text.partition(" ")
            if not divider or ";" not in tags:
                return [], text
        return [f"{tag};" for tag in tags.rstrip(" ").split(";") if tag], source.lstrip(" \t")


class Model(nn.Module):
    """A subclass has `encode(sources)`, the state before the first token, from the ids of each source, and
    `step(previous, state)`, the logits of the next tokens and the next state, from the tokens before, `[batch]`."""

    def __init__(self, metadata):
        super().__init__()
        self.metadata = metadata
        vocabs, unicode, has_tags = (metadata[key] for key in ("vocabs", "unicode", "source_has_tags"))
        subwords = (metadata.get(f"{side}_subwords") for side in ("source", "target"))
        self.source = Vocabulary(vocabs["source"], metadata["source_tokens"], unicode, next(subwords), has_tags)
        self.target = Vocabulary(vocabs["target"], metadata["target_tokens"], unicode, next(subwords))

    @torch.inference_mode()
    def translate(self, texts):
        """The translation of each text, by greedy search."""
        sources = [self._encoded(text) for text in texts]
        return [output for at in range(0, len(sources), BATCH) for output in self._greedy(sources[at : at + BATCH])]

    @torch.inference_mode()
    def log_probabilities(self, source, target):
        """The log-probability of each token of a target, and of its end, among the tokens that may come next."""
        following = self.target.encode(target) + [EOS]
        state = self.encode([self._encoded(source)])
        found = []
        for previous, token in zip([BOS] + following, following):
            logits, state = self.step(torch.tensor([previous], device=self.device), state)
            found.append(_candidates(logits).log_softmax(-1)[0, token].item())
        return found

    @property
    def device(self):
        return next(self.parameters()).device

    def _encoded(self, text):
        tokens = self.source.encode(text)
        if not tokens:
            raise ValueError("the text to translate: expected at least one token, found none")
        return tokens

    def _greedy(self, sources):
        state = self.encode(sources)
        previous = torch.full([len(sources)], BOS, device=self.device)
        outputs, has_ended = [], torch.zeros_like(previous, dtype=torch.bool)
        for _ in range(self.metadata["max_len"]):
            logits, state = self.step(previous, state)
            previous = _candidates(logits).argmax(-1)
            outputs.append(previous)
            has_ended |= previous == EOS
            if has_ended.all():
                break
        outputs = torch.stack(outputs, 1).tolist()
        return [self.target.decode(ids[: ids.index(EOS)] if EOS in ids else ids) for ids in outputs]

    def _padded(self, sources):
        return pad_sequence([torch.tensor(ids, device=self.device) for ids in sources], True, PAD)


def _candidates(logits):
    """Padding, begin and the unknown token never come next."""
    logits = logits.clone()
    logits[:, [PAD, BOS, UNK]] = -math.inf
    return logits


class Recurrent(Model):
    """GRUs or LSTMs, whose decoder attends to the source before each of its steps (Bahdanau et al. 2015)."""

    def __init__(self, metadata):
        super().__init__(metadata)
        self.encoder = RecurrentEncoder(metadata["model"])
        self.decoder = RecurrentDecoder(metadata["model"], metadata["attention"])

    def encode(self, sources):
        states, last = self.encoder(self._padded(sources), torch.tensor([len(source) for source in sources]))
        lens = torch.tensor([[len(source)] for source in sources], device=self.device)
        is_padding = torch.arange(states.shape[1], device=self.device) >= lens
        return self.decoder.first_state(last), states, is_padding

    def step(self, previous, state):
        state, keys, is_padding = state
        logits, state = self.decoder(previous, state, keys, is_padding)
        return logits, (state, keys, is_padding)


class RecurrentEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.directions = 2 if config["bidirectional"] else 1
        size, embedding_size = config["hidden_size"] // self.directions, config["embedding_size"]
        self.embedding = nn.Embedding(config["source_vocab_size"], embedding_size)
        options = dict(batch_first=True, bidirectional=self.directions == 2)
        self.rnn = CELLS[config["cell"]](embedding_size, size, config["layers"], **options)

    def forward(self, tokens, lens):
        """The top layer's states `[batch, tokens, hidden_size]`, and the last of each layer, h and of an LSTM c."""
        packed = pack_padded_sequence(self.embedding(tokens), lens, batch_first=True, enforce_sorted=False)
        packed, last = self.rnn(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True)
        # From [layers * directions, batch, size] to [layers, batch, directions * size].
        last = [part.unflatten(0, (-1, self.directions)) for part in (last if isinstance(last, tuple) else (last,))]
        return states, [part.transpose(1, 2).flatten(2) for part in last]


class RecurrentDecoder(nn.Module):
    def __init__(self, config, attention):
        super().__init__()
        if attention not in ATTENTIONS:
            raise ValueError(f"the attention: expected one of {', '.join(ATTENTIONS)}, found {attention}")
        size, vocab_size = config["hidden_size"], config["target_vocab_size"]
        self.embedding = nn.Embedding(vocab_size, config["embedding_size"])
        self.attention = ATTENTIONS[attention](size)
        self.start = nn.ModuleList(nn.Linear(size, size) for _ in range(config["layers"]))
        self.rnn = CELLS[config["cell"]](config["embedding_size"] + size, size, config["layers"], batch_first=True)
        self.output = nn.Linear(2 * size, vocab_size)

    def first_state(self, last):
        hidden, *cell = last
        return [torch.stack([start(part).tanh() for start, part in zip(self.start, hidden)]), *cell]

    def forward(self, previous, state, keys, is_padding):
        context = self.attention(state[0][-1], keys, is_padding)
        inputs = torch.cat([self.embedding(previous), context], -1).unsqueeze(1)
        outputs, state = self.rnn(inputs, tuple(state) if len(state) == 2 else state[0])
        logits = self.output(torch.cat([outputs.squeeze(1), context], -1))
        return logits, state if isinstance(state, tuple) else (state,)


class Transformer(Model):
    """Encoder and decoder of self-attention (Vaswani et al. 2017), normalized before each sublayer."""

    def __init__(self, metadata):
        super().__init__(metadata)
        if metadata["attention"] != "dot":
            raise ValueError(f"the attention of a Transformer: expected dot, found {metadata['attention']}")
        config = metadata["model"]
        self.size = size = config["hidden_size"]
        layers, sizes = config["layers"], (size, config["heads"], config["feed_forward_size"])
        options = dict(dropout=0.0, batch_first=True, norm_first=True)
        layer = nn.TransformerEncoderLayer(*sizes, **options)
        self.source_embedding = nn.Embedding(config["source_vocab_size"], size)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(size), enable_nested_tensor=False)
        self.target_embedding = nn.Embedding(config["target_vocab_size"], size)
        layer = nn.TransformerDecoderLayer(*sizes, **options)
        self.decoder = nn.TransformerDecoder(layer, layers, nn.LayerNorm(size))
        self.output = nn.Linear(size, config["target_vocab_size"])

    def encode(self, sources):
        tokens = self._padded([source + [EOS] for source in sources])
        is_padding = tokens == PAD
        keys = self.encoder(self._embedded(self.source_embedding, tokens), src_key_padding_mask=is_padding)
        return tokens.new_empty([len(sources), 0]), keys, is_padding

    def step(self, previous, state):
        """All steps anew: for long outputs, keep the keys and values of those before."""
        tokens, keys, is_padding = state
        tokens = torch.cat([tokens, previous.unsqueeze(1)], 1)
        causal = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        rows = self._embedded(self.target_embedding, tokens)
        rows = self.decoder(rows, keys, causal, memory_key_padding_mask=is_padding, tgt_is_causal=True)
        return self.output(rows[:, -1]), (tokens, keys, is_padding)

    def _embedded(self, embedding, tokens):
        """Embeddings times the root of their size, and sines and cosines of their positions, one after the other."""
        rates = 10_000 ** -(torch.arange(0, self.size, 2, dtype=torch.float64) / self.size)
        angles = torch.arange(tokens.shape[1], dtype=torch.float64)[:, None] * rates
        positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, : self.size]
        return embedding(tokens) * math.sqrt(self.size) + positions.to(tokens.device, torch.float32)


class Attention(nn.Module):
    """The context of a query `[batch, size]`: softmax of a score over keys, the values too, `[batch, keys, size]`.

    A subclass has `score`, `[batch, keys]`.
    """

    def __init__(self, size):
        super().__init__()

    def forward(self, query, keys, is_padding):
        scores = self.score(query.unsqueeze(1).expand_as(keys), keys).masked_fill(is_padding, -math.inf)
        return (scores.softmax(-1).unsqueeze(1) @ keys).squeeze(1)


class Additive(Attention):
    """w_v . tanh(W_q q + W_k k)"""

    def __init__(self, size):
        super().__init__(size)
        self.W_q, self.W_k = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.w_v = nn.Linear(size, 1, bias=False)

    def score(self, query, keys):
        return self.w_v(torch.tanh(self.W_q(query) + self.W_k(keys))).squeeze(-1)


class Normalized(Attention):
    """g v/|v| . tanh(W_q q + W_k k + b)"""

    def __init__(self, size):
        super().__init__(size)
        self.W_q, self.W_k = nn.Linear(size, size), nn.Linear(size, size, bias=False)
        self.w_v = nn.ParameterDict({"weight_g": torch.ones(1, 1), "weight_v": torch.ones(1, size)})

    def score(self, query, keys):
        direction = functional.normalize(self.w_v["weight_v"])
        return torch.tanh(self.W_q(query) + self.W_k(keys)) @ (self.w_v["weight_g"] * direction)[0]


class Dot(Attention):
    """q . k / sqrt(size)"""

    def score(self, query, keys):
        return (query * keys).sum(-1) / math.sqrt(query.shape[-1])


class Concat(Attention):
    """v . tanh(W [q; k])"""

    def __init__(self, size):
        super().__init__(size)
        self.hidden, self.v = nn.Linear(2 * size, size, bias=False), nn.Linear(size, 1, bias=False)

    def score(self, query, keys):
        return self.v(torch.tanh(self.hidden(torch.cat([query, keys], -1)))).squeeze(-1)


class Bilinear(Attention):
    """q^T M k"""

    def __init__(self, size):
        super().__init__(size)
        self.bilinear = nn.Bilinear(size, size, 1, bias=False)

    def score(self, query, keys):
        return self.bilinear(query.contiguous(), keys).squeeze(-1)


class Biaffine(Bilinear):
    """q^T M k + u . q + v . k + b"""

    def __init__(self, size):
        super().__init__(size + 1)

    def score(self, query, keys):
        return super().score(*(functional.pad(rows, (0, 1), value=1.0) for rows in (query, keys)))


class Projected(Dot):
    """W_q q . W_k k / sqrt(size)"""

    def __init__(self, size):
        super().__init__(size)
        self.W_q, self.W_k = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)

    def score(self, query, keys):
        return super().score(self.W_q(query), self.W_k(keys))


class Cosine(Attention):
    """t cos(q, k)"""

    def __init__(self, size):
        super().__init__(size)
        self.temperature = nn.Parameter(torch.ones(1))

    def score(self, query, keys):
        return self.temperature * functional.cosine_similarity(query, keys, dim=-1)


class QkNorm(Dot):
    """norm(q) . norm(k) / sqrt(size)"""

    def __init__(self, size):
        super().__init__(size)
        self.q_norm, self.k_norm = nn.RMSNorm(size, eps=1e-6), nn.RMSNorm(size, eps=1e-6)

    def score(self, query, keys):
        return super().score(self.q_norm(query), self.k_norm(keys))


class Gaussian(Attention):
    """-|q - k|^2 / 2 s^2"""

    def __init__(self, size):
        super().__init__(size)
        self.inverse_width = nn.Parameter(torch.ones(1))

    def score(self, query, keys):
        return ((query - keys) * self.inverse_width).square().sum(-1) / -2


class Heads(nn.MultiheadAttention):
    """Scaled dot products of 4 heads (2 or 1 where the size does not divide)."""

    def __init__(self, size):
        super().__init__(size, math.gcd(size, 4), bias=False, batch_first=True)

    def forward(self, query, keys, is_padding):
        context, _ = super().forward(query.unsqueeze(1), keys, keys, is_padding, need_weights=False)
        return context.squeeze(1)


ATTENTIONS = {
    "additive": Additive, "dot": Dot, "normalized": Normalized, "concat": Concat, "bilinear": Bilinear,
    "biaffine": Biaffine, "projected": Projected, "cosine": Cosine, "qk-norm": QkNorm, "gaussian": Gaussian,
    "heads": Heads,
}


def main():
    parser = argparse.ArgumentParser(description="Translates with a model that `seq2seq export` wrote.")
    parser.add_argument("model", help="the file of safetensors")
    parser.add_argument("texts", nargs="*", help="the texts to translate [default: the lines of the standard input]")
    parser.add_argument("--score", action="store_true", help="print log-probabilities of lines SOURCE TAB TARGET")
    parser.add_argument("--device", default="cpu", help="PyTorch's name of the device [default: cpu]")
    args = parser.parse_intermixed_args()
    model = load(args.model, args.device)
    texts = args.texts or [line.rstrip("\r\n") for line in sys.stdin]
    if args.score:
        for text in texts:
            source, tab, target = text.partition("\t")
            if not tab:
                raise ValueError(f"expected SOURCE TAB TARGET, found {text!r}")
            print(sum(model.log_probabilities(source, target)))
    else:
        print(*model.translate(texts), sep="\n")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
