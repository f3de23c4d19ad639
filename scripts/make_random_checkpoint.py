#!/usr/bin/env python3
"""Writes a checkpoint of the MiniMax-M3 shape with random weights, for measuring speed and memory.

The form is the mixed one that NVIDIA publishes: routed experts NVFP4 (ModelOpt names), other linears
MXFP8 with weight_scale_inv, embedding, lm_head and norms bf16, router fp32. Layers, experts and
widths are flags, so that a checkpoint of any size between megabytes and the real thing can be made:

    make_random_checkpoint.py --layers 2 --experts 16 --out /tmp/m3
    make_random_checkpoint.py --size-gib 1.2 --out /tmp/m3     # as many experts as fit
    make_random_checkpoint.py --layers 3 --all-sparse --kv-nvfp4 --tokenizer models/demo --out DIR

Only the standard library is used, and random bytes are shaped by translation tables instead of
arithmetic: that is what makes it fast. Scales are chosen so that activations keep their size from
layer to layer: a weight of a matrix with n inputs has a deviation of about gain / sqrt(n). The same
flags and seed give the same bytes.
"""
import argparse
import json
import math
import os
import random
import shutil
import struct
import sys

HEAD = 128
CHUNK = 1 << 22
SHARD = 2 << 30

# E4M3 codes of a random weight: sign, exponent field 4..11 weighted towards the top as a normal
# distribution would have it, any mantissa; never NaN.
_EXPONENTS = [11] * 4 + [10] * 10 + [9] * 9 + [8] * 5 + [7] * 2 + [6, 4]


def e4m3_value(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if code & 128 else magnitude


E4M3_TABLE = bytes((b & 128) | _EXPONENTS[(b >> 2) & 31] << 3 | (b * 37 & 7) for b in range(256))
E4M3_DEVIATION = math.sqrt(sum(e4m3_value(c) ** 2 for c in E4M3_TABLE) / 256)
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M1_DEVIATION = math.sqrt(sum(v * v for v in E2M1) / 8)  # of uniform codes


# Block scales 1.0 .. 3.75: two octaves from code 0x38.
SCALE_TABLE = bytes(0x38 + b % 16 for b in range(256))
SCALE_DEVIATION = math.sqrt(sum(e4m3_value(c) ** 2 for c in SCALE_TABLE) / 256)


class Source:
    """Random bytes in bulk."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def chunks(self, n):
        while n > 0:
            size = min(n, CHUNK)
            yield self.random.randbytes(size)
            n -= size


def plain(source, n):
    yield from source.chunks(n)


def translated(table):
    def make(source, n):
        for chunk in source.chunks(n):
            yield chunk.translate(table)
    return make


def constant(data):
    def make(source, n):
        del source
        assert n == len(data)
        yield data
    return make


def bf16_random(deviation):
    """bf16 values of about this deviation: random mantissas under a fixed choice of exponents."""
    exponent = max(2, min(253, 127 + math.floor(math.log2(deviation / 1.1))))
    # Byte 1 is sign and the upper seven exponent bits, byte 0 the lowest exponent bit and mantissa.
    high = bytes((b & 128) | exponent >> 1 for b in range(256))
    low = bytes((exponent & 1) << 7 | b & 127 for b in range(256))

    def make(source, n):
        for chunk in source.chunks(n):
            out = bytearray(len(chunk))
            out[0::2] = chunk[0::2].translate(low)
            out[1::2] = chunk[1::2].translate(high)
            yield bytes(out)
    return make


def f32_random(deviation):
    def make(source, n):
        values = [source.random.gauss(0, deviation) for _ in range(n // 4)]
        yield struct.pack(f"<{len(values)}f", *values)
    return make


class Tensors:
    """Names, types, shapes and makers, in the order of the file."""

    def __init__(self):
        self.items = []
        self.bytes = 0

    def add(self, name, dtype, shape, make):
        size = {"BF16": 2, "F32": 4, "U8": 1, "F8_E4M3": 1}[dtype] * math.prod(shape)
        self.items.append((name, dtype, shape, size, make))
        self.bytes += size

    def mxfp8(self, module, n_out, n_in, gain=1.0):
        want = gain / math.sqrt(n_in)
        exponent = 127 + round(math.log2(want / E4M3_DEVIATION))
        self.add(module + ".weight", "F8_E4M3", [n_out, n_in], translated(E4M3_TABLE))
        self.add(module + ".weight_scale_inv", "U8", [n_out, n_in // 32],
                 translated(bytes(exponent - (b & 1) + (b >> 1 & 1) for b in range(256))))

    def nvfp4(self, module, n_out, n_in, gain=1.0):
        outer = gain / math.sqrt(n_in) / (E2M1_DEVIATION * SCALE_DEVIATION)
        self.add(module + ".weight", "U8", [n_out, n_in // 2], plain)
        self.add(module + ".weight_scale", "F8_E4M3", [n_out, n_in // 16], translated(SCALE_TABLE))
        self.add(module + ".weight_scale_2", "F32", [1], constant(struct.pack("<f", outer)))
        self.add(module + ".input_scale", "F32", [1], constant(struct.pack("<f", 1.0)))

    def bf16(self, name, shape, deviation):
        self.add(name, "BF16", shape, bf16_random(deviation))


def describe(args, n_experts):
    """All tensors of the model."""
    t = Tensors()
    hidden, kv = args.hidden, args.kv_heads * HEAD
    root = "language_model.model."
    t.bf16("language_model.lm_head.weight", [args.vocab, hidden], 3 / math.sqrt(hidden))
    t.bf16(root + "embed_tokens.weight", [args.vocab, hidden], 1.0)
    for i, (sparse, moe) in enumerate(zip(*kinds(args))):
        p = f"{root}layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            t.bf16(p + norm + ".weight", [hidden], 0.1)
        a = p + "self_attn."
        t.mxfp8(a + "q_proj", args.heads * HEAD, hidden)
        t.mxfp8(a + "k_proj", kv, hidden)
        t.mxfp8(a + "v_proj", kv, hidden)
        t.mxfp8(a + "o_proj", hidden, args.heads * HEAD)
        norms = ["q_norm", "k_norm"]
        if sparse:
            t.mxfp8(a + "index_q_proj", kv, hidden)
            t.mxfp8(a + "index_k_proj", HEAD, hidden)
            norms += ["index_q_norm", "index_k_norm"]
        for norm in norms:
            t.bf16(a + norm + ".weight", [HEAD], 0.1)
        if moe:
            b = p + "block_sparse_moe."
            t.add(b + "gate.weight", "F32", [n_experts, hidden], f32_random(1 / math.sqrt(hidden)))
            t.add(b + "e_score_correction_bias", "F32", [n_experts], f32_random(0.05))
            for e in range(n_experts):
                for name, n_out, n_in in (("w1", args.expert_width, hidden), ("w3", args.expert_width, hidden),
                                          ("w2", hidden, args.expert_width)):
                    t.nvfp4(f"{b}experts.{e}.{name}", n_out, n_in, 0.5 if name == "w2" else 1.0)
            ffn(t, b + "shared_experts.", args.expert_width, hidden)
        else:
            ffn(t, p + "mlp.", args.dense_width, hidden)
    t.bf16(root + "norm.weight", [hidden], 0.1)
    return t


def ffn(t, prefix, width, hidden):
    t.mxfp8(prefix + "gate_proj", width, hidden)
    t.mxfp8(prefix + "up_proj", width, hidden)
    t.mxfp8(prefix + "down_proj", hidden, width, 0.5)


def kinds(args):
    sparse = [1 if args.all_sparse or i >= args.dense_layers else 0 for i in range(args.layers)]
    moe = [1 if i >= args.dense_layers else 0 for i in range(args.layers)]
    return sparse, moe


def config(args, n_experts):
    sparse, moe = kinds(args)
    text = {
        "architectures": ["MiniMaxM3SparseForCausalLM"], "hidden_size": args.hidden, "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads, "head_dim": HEAD,
        "vocab_size": args.vocab, "max_position_embeddings": 1048576, "rms_norm_eps": 1e-06, "use_gemma_norm": True,
        "use_qk_norm": True, "qk_norm_type": "per_head", "attention_output_gate": False, "rope_theta": 5000000,
        "rotary_dim": 64, "partial_rotary_factor": 0.5, "num_local_experts": n_experts,
        "num_experts_per_tok": min(args.top_k, n_experts), "n_shared_experts": 1, "intermediate_size": args.expert_width,
        "shared_intermediate_size": args.expert_width, "dense_intermediate_size": args.dense_width,
        "scoring_func": "sigmoid", "use_routing_bias": True, "routed_scaling_factor": 2.0, "hidden_act": "swigluoai",
        "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "tie_word_embeddings": False, "moe_layer_freq": moe,
        "sparse_attention_config": {
            "use_sparse_attention": True, "sparse_attention_freq": sparse, "sparse_disable_index_value": sparse,
            "sparse_num_index_heads": args.kv_heads, "sparse_index_dim": HEAD, "sparse_block_size": 128,
            "sparse_topk_blocks": 16, "sparse_score_type": "max", "sparse_init_block": 0, "sparse_local_block": 1}}
    return {"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl",
            "torch_dtype": "bfloat16", "text_config": text,
            "quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                                    "kv_cache_quant_algo": "NVFP4" if args.kv_nvfp4 else None}}


def shards_of(tensors, limit):
    shard, size = [], 0
    for item in tensors.items:
        if shard and size + item[3] > limit:
            yield shard
            shard, size = [], 0
        shard.append(item)
        size += item[3]
    yield shard


# Elements of many bytes first: then every tensor starts at a multiple of its element.
ALIGNMENT = {"F32": 0, "BF16": 1, "F8_E4M3": 2, "U8": 2}


def write_shard(path, shard, source):
    shard = sorted(shard, key=lambda item: ALIGNMENT[item[1]])
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, size, _ in shard:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, size, make in shard:
            for chunk in make(source, size):
                f.write(chunk)


def dump(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def experts_for(args):
    """As many experts as keep the weights within --size-gib."""
    limit = args.size_gib * (1 << 30)
    one, two = describe(args, 1).bytes, describe(args, 2).bytes
    n = 1 + int((limit - one) // (two - one)) if two > one else 1
    if n < 1:
        sys.exit(f"{args.size_gib} GiB do not hold {args.layers} layers: one expert a layer takes {one / (1 << 30):.2f} GiB")
    return min(n, 128)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--dense-layers", type=int, default=1, help="leading layers with a dense FFN")
    p.add_argument("--all-sparse", action="store_true", help="sparse attention in the dense layers too, as M3.1 has it")
    p.add_argument("--experts", type=int, default=16)
    p.add_argument("--size-gib", type=float, help="choose the number of experts to reach this size")
    p.add_argument("--hidden", type=int, default=6144)
    p.add_argument("--heads", type=int, default=64)
    p.add_argument("--kv-heads", type=int, default=4)
    p.add_argument("--expert-width", type=int, default=3072)
    p.add_argument("--dense-width", type=int, default=12288)
    p.add_argument("--top-k", type=int, default=4)
    p.add_argument("--vocab", type=int, default=4096)
    p.add_argument("--kv-nvfp4", action="store_true", help="declare an NVFP4 cache")
    p.add_argument("--tokenizer", help="folder whose tokenizer and template files are copied")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def main():
    args = arguments()
    n_experts = experts_for(args) if args.size_gib else args.experts
    tensors = describe(args, n_experts)
    os.makedirs(args.out, exist_ok=True)
    source = Source(args.seed)
    shards = list(shards_of(tensors, SHARD - (64 << 20)))
    weight_map = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        write_shard(os.path.join(args.out, name), shard, source)
        weight_map.update({item[0]: name for item in shard})
    dump(os.path.join(args.out, "model.safetensors.index.json"),
         {"metadata": {"total_size": tensors.bytes}, "weight_map": weight_map})
    dump(os.path.join(args.out, "config.json"), config(args, n_experts))
    generation = {"temperature": 1.0, "top_p": 0.95}
    if args.tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "added_tokens.json"):
            if os.path.exists(os.path.join(args.tokenizer, name)):
                shutil.copy(os.path.join(args.tokenizer, name), args.out)
        with open(os.path.join(args.tokenizer, "generation_config.json")) as f:
            generation = json.load(f)
    dump(os.path.join(args.out, "generation_config.json"), generation)
    print(f"{args.out}: {tensors.bytes / (1 << 30):.2f} GiB, {len(tensors.items)} tensors, {n_experts} experts a layer")


if __name__ == "__main__":
    main()
