#include <string.h>

#include "base/digest.h"

/* BLAKE3 as in the paper of O'Connor, Aumasson, Neves and Wilcox-O'Hearn, in
 * portable form: chunks of 1 KiB are the leaves of a binary tree, the root is
 * compressed as often as output is wanted. */
enum {
    BLOCK_SIZE = 64,
    CHUNK_SIZE = 1024,
    ROUNDS = 7,
    CHUNK_START = 1,
    CHUNK_END = 2,
    PARENT = 4,
    ROOT = 8,
    KEYED_HASH = 16,
};

static const uint32_t IV[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* Row r: which message word each place of round r takes. Row r + 1 is row r
 * seen through row 1. */
static const uint8_t SCHEDULE[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

/* One compression that has not been done yet: the root must know that it is. */
struct node {
    uint32_t chain[8];
    uint32_t words[16];
    uint64_t counter;
    uint32_t size;
    uint32_t flags;
};

struct tree {
    uint32_t key[8];
    uint32_t flags;
};

static inline uint32_t rotate(uint32_t v, int by)
{
    return v >> by | v << (32 - by);
}

static inline void mix(uint32_t *v, int a, int b, int c, int d, uint32_t x,
                       uint32_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 7);
}

static inline void mix_round(uint32_t *v, const uint32_t *m, const uint8_t *at)
{
    mix(v, 0, 4, 8, 12, m[at[0]], m[at[1]]);
    mix(v, 1, 5, 9, 13, m[at[2]], m[at[3]]);
    mix(v, 2, 6, 10, 14, m[at[4]], m[at[5]]);
    mix(v, 3, 7, 11, 15, m[at[6]], m[at[7]]);
    mix(v, 0, 5, 10, 15, m[at[8]], m[at[9]]);
    mix(v, 1, 6, 11, 12, m[at[10]], m[at[11]]);
    mix(v, 2, 7, 8, 13, m[at[12]], m[at[13]]);
    mix(v, 3, 4, 9, 14, m[at[14]], m[at[15]]);
}

static void compress(const struct node *node, uint32_t out[16])
{
    const uint32_t *chain = node->chain;
    uint32_t v[16] = {
        chain[0],
        chain[1],
        chain[2],
        chain[3],
        chain[4],
        chain[5],
        chain[6],
        chain[7],
        IV[0],
        IV[1],
        IV[2],
        IV[3],
        (uint32_t)node->counter,
        (uint32_t)(node->counter >> 32),
        node->size,
        node->flags,
    };
    mix_round(v, node->words, SCHEDULE[0]);
    mix_round(v, node->words, SCHEDULE[1]);
    mix_round(v, node->words, SCHEDULE[2]);
    mix_round(v, node->words, SCHEDULE[3]);
    mix_round(v, node->words, SCHEDULE[4]);
    mix_round(v, node->words, SCHEDULE[5]);
    mix_round(v, node->words, SCHEDULE[6]);
    for (int i = 0; i < 8; i++) {
        out[i] = v[i] ^ v[i + 8];
        out[i + 8] = v[i + 8] ^ chain[i];
    }
}

static void chain_of(const struct node *node, uint32_t chain_out[8])
{
    uint32_t out[16];
    compress(node, out);
    memcpy(chain_out, out, 8 * sizeof(uint32_t));
}

static uint32_t load(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static void load_block(struct node *node, struct span data)
{
    uint8_t block[BLOCK_SIZE] = {0};
    if (data.size > 0) {
        memcpy(block, data.data, data.size);
    }
    for (int i = 0; i < 16; i++) {
        node->words[i] = load(block + 4 * i);
    }
    node->size = (uint32_t)data.size;
}

static struct node chunk_node(const struct tree *tree, struct span data,
                              uint64_t index)
{
    struct node node = {.counter = index, .flags = tree->flags | CHUNK_START};
    memcpy(node.chain, tree->key, sizeof(node.chain));
    size_t begin = 0;
    while (data.size - begin > BLOCK_SIZE) {
        load_block(&node, span_slice(data, begin, begin + BLOCK_SIZE));
        chain_of(&node, node.chain);
        node.flags = tree->flags;
        begin += BLOCK_SIZE;
    }
    load_block(&node, span_slice(data, begin, data.size));
    node.flags |= CHUNK_END;
    return node;
}

/* Bytes of the left child: as many whole chunks as the largest power of two
 * that leaves something for the right one. */
static size_t left_size(size_t size)
{
    size_t chunks = (size - 1) / CHUNK_SIZE;
    size_t power = 1;
    while (power * 2 <= chunks) {
        power *= 2;
    }
    return power * CHUNK_SIZE;
}

/* As deep as the tree is high: under 55 for any size there is. */
static struct node tree_node(const struct tree *tree, struct span data,
                             uint64_t index)
{
    if (data.size <= CHUNK_SIZE) {
        return chunk_node(tree, data, index);
    }
    size_t middle = left_size(data.size);
    struct node left = tree_node(tree, span_slice(data, 0, middle), index);
    struct node right = tree_node(tree, span_slice(data, middle, data.size),
                                  index + middle / CHUNK_SIZE);
    struct node parent = {.size = BLOCK_SIZE, .flags = tree->flags | PARENT};
    memcpy(parent.chain, tree->key, sizeof(parent.chain));
    chain_of(&left, parent.words);
    chain_of(&right, parent.words + 8);
    return parent;
}

void digest_blake3(const uint8_t *key, struct span data, uint8_t *out,
                   size_t out_size)
{
    struct tree tree = {.flags = key == NULL ? 0 : KEYED_HASH};
    for (int i = 0; i < 8; i++) {
        tree.key[i] = key == NULL ? IV[i] : load(key + 4 * i);
    }
    struct node root = tree_node(&tree, data, 0);
    root.flags |= ROOT;
    for (size_t i = 0; i < out_size; i++) {
        uint32_t words[16];
        if (i % BLOCK_SIZE == 0) {
            root.counter = i / BLOCK_SIZE;
            compress(&root, words);
        }
        out[i] = (uint8_t)(words[i % BLOCK_SIZE / 4] >> (8 * (i % 4)));
    }
}
