// Loss and gradient of the model for a batch of sequences, on one core.
//
// For a model this small a framework spends its time between the products; this keeps a layer of
// a sequence in the cache instead. test_gradient.py compares it with PyTorch's.
//
// All matrices are row-major. Weights and gradients lie in one array each, in the order of a
// llama2.c checkpoint (see `struct weights`).

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    DIM = 64,
    HIDDEN = 192,
    LAYERS = 5,
    HEADS = 8,
    KV_HEADS = 4,
    HEAD = DIM / HEADS,
    KV = HEAD * KV_HEADS,
    QKV = DIM + 2 * KV,
    VOCAB = 512,
    LANES = 16,
    MAX_LEN = 512,
};

static const float EPS = 1e-5f;
static const double ROPE_BASE = 10000.0;

// Loads and stores of these need no alignment.
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline floats all(float x) { return x - (floats){}; }
static inline floats load(const float *at) { return *(const floats *)at; }
static inline void store(float *at, floats x) { *(floats *)at = x; }

static inline floats pick(ints which, floats yes, floats no) {
    return (floats)(((ints)yes & which) | ((ints)no & ~which));
}

static inline floats larger(floats a, floats b) { return pick(a > b, a, b); }

// Lanes joined in halves: the sum or the largest ends up in lane 0.
#define FOLD(x, join) \
    x = join(x, __builtin_shuffle(x, (ints){8, 9, 10, 11, 12, 13, 14, 15})); \
    x = join(x, __builtin_shuffle(x, (ints){4, 5, 6, 7})); \
    x = join(x, __builtin_shuffle(x, (ints){2, 3})); \
    x = join(x, __builtin_shuffle(x, (ints){1}));

static inline floats plus(floats a, floats b) { return a + b; }

static inline float largest(floats x) {
    FOLD(x, larger)
    return x[0];
}

static inline float sum(floats x) {
    FOLD(x, plus)
    return x[0];
}

// exp to about 1e-6 relative, 0 far below.
static inline floats exp_floats(floats x) {
    x = larger(x, all(-87.0f));
    const floats magic = all(12582912.0f); // 1.5 * 2^23: adding it rounds
    floats t = x * all(1.44269504f);
    floats shifted = t + magic;
    floats f = t - (shifted - magic);
    ints exponent = (ints)shifted << 23;
    floats p = all(1.8775767e-3f);
    p = p * f + all(8.9893397e-3f);
    p = p * f + all(5.5826318e-2f);
    p = p * f + all(2.4015361e-1f);
    p = p * f + all(6.9315308e-1f);
    p = p * f + all(9.9999994e-1f);
    return (floats)((ints)p + exponent);
}

// c[m][n] (+)= sum over k of a(m, k) * b[k][n], where a(m, k) is a[m * a_row + k * a_column].
// m is a multiple of 4, n of 64.
static void product(int m, int n, int k, const float *a, int a_row, int a_column, const float *b,
                    int b_row, float *c, int c_row, int add) {
    for (int column = 0; column < n; column += 4 * LANES) {
        for (int row = 0; row < m; row += 4) {
            floats tile[4][4];
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    const float *from = c + (row + i) * c_row + column + j * LANES;
                    tile[i][j] = add ? load(from) : all(0);
                }
            }
            const float *a_at = a + row * a_row;
            const float *b_at = b + column;
            for (int step = 0; step < k; step++) {
                floats b0 = load(b_at), b1 = load(b_at + LANES);
                floats b2 = load(b_at + 2 * LANES), b3 = load(b_at + 3 * LANES);
                for (int i = 0; i < 4; i++) {
                    floats x = all(a_at[i * a_row]);
                    tile[i][0] += x * b0;
                    tile[i][1] += x * b1;
                    tile[i][2] += x * b2;
                    tile[i][3] += x * b3;
                }
                a_at += a_column;
                b_at += b_row;
            }
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    store(c + (row + i) * c_row + column + j * LANES, tile[i][j]);
                }
            }
        }
    }
}

// gradient[rows][columns] += transposed d_out[len][rows] * in[len][columns].
static void weight_gradient(int rows, int columns, int len, const float *d_out, int d_out_row,
                            const float *in, int in_row, float *gradient) {
    for (int at = 0; at < len; at += 64) {
        int part = len - at < 64 ? len - at : 64;
        product(rows, columns, part, d_out + at * d_out_row, 1, d_out_row, in + at * in_row, in_row,
                gradient, columns, 1);
    }
}

static void transpose(int rows, int columns, const float *from, float *to, int to_row) {
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) to[j * to_row + i] = from[i * columns + j];
    }
}

// As in a checkpoint of llama2.c, whose classifier is the embedding.
struct weights {
    float embedding[VOCAB][DIM];
    float attention_norm[LAYERS][DIM];
    float wq[LAYERS][DIM][DIM];
    float wk[LAYERS][KV][DIM];
    float wv[LAYERS][KV][DIM];
    float wo[LAYERS][DIM][DIM];
    float ffn_norm[LAYERS][DIM];
    float w1[LAYERS][HIDDEN][DIM];
    float w2[LAYERS][DIM][HIDDEN];
    float w3[LAYERS][HIDDEN][DIM];
    float final_norm[DIM];
};

// The matrices once more, transposed for the way forward, joined where they have one input.
struct transposed {
    float embedding[DIM][VOCAB];
    float qkv[LAYERS][DIM][QKV];
    float wo[LAYERS][DIM][DIM];
    float w13[LAYERS][DIM][2 * HIDDEN];
    float w2[LAYERS][HIDDEN][DIM];
};

// What a layer keeps for the way back.
struct layer {
    float in[MAX_LEN][DIM];
    float normed[MAX_LEN][DIM];
    float qkv[MAX_LEN][QKV]; // queries and keys turned, queries divided by the root of the head size
    float log_sum[HEADS][MAX_LEN];
    float attention[MAX_LEN][DIM];
    float between[MAX_LEN][DIM];
    float normed_between[MAX_LEN][DIM];
    float w13[MAX_LEN][2 * HIDDEN];
    float gated[MAX_LEN][HIDDEN];
};

// Of the positions of a head: one after the other, or LANES at a time, so that a load gives the same
// element of all of them.
typedef float rows[MAX_LEN][HEAD] __attribute__((aligned(64)));
typedef float columns[MAX_LEN / LANES][HEAD][LANES] __attribute__((aligned(64)));

struct work {
    struct weights weights; // a copy, since the caller's need not be aligned
    struct transposed transposed;
    float cos[MAX_LEN][HEAD / 2], sin[MAX_LEN][HEAD / 2];
    struct layer layers[LAYERS];
    float out[MAX_LEN][DIM];
    float normed[MAX_LEN][DIM];
    float logits[64][VOCAB];
    float d_x[MAX_LEN][DIM];
    float d_normed[MAX_LEN][DIM];
    float d_attention[MAX_LEN][DIM];
    float d_qkv[MAX_LEN][QKV];
    float d_gated[MAX_LEN][HIDDEN];
    float d_w13[MAX_LEN][2 * HIDDEN];
    rows queries, keys, values, d_out;
    columns query_columns, key_columns, value_columns, d_queries, d_keys, d_values;
};

static void norm(int len, const float (*x)[DIM], const float *weight, float (*out)[DIM]) {
    for (int t = 0; t < len; t++) {
        floats squares = all(0);
        for (int i = 0; i < DIM; i += LANES) squares += load(x[t] + i) * load(x[t] + i);
        float scale = 1 / sqrtf(sum(squares) / DIM + EPS);
        for (int i = 0; i < DIM; i += LANES) {
            store(out[t] + i, load(x[t] + i) * all(scale) * load(weight + i));
        }
    }
}

// Adds to d_x; d_weight may be anywhere.
static void norm_back(int len, const float (*x)[DIM], const float *weight, const float (*d_out)[DIM],
                      float (*d_x)[DIM], float *d_weight) {
    for (int t = 0; t < len; t++) {
        floats squares = all(0), products = all(0);
        for (int i = 0; i < DIM; i += LANES) {
            squares += load(x[t] + i) * load(x[t] + i);
            products += load(x[t] + i) * load(weight + i) * load(d_out[t] + i);
        }
        float scale = 1 / sqrtf(sum(squares) / DIM + EPS);
        float along = sum(products) * scale * scale / DIM;
        for (int i = 0; i < DIM; i += LANES) {
            floats direct = load(weight + i) * load(d_out[t] + i);
            floats change = all(scale) * (direct - load(x[t] + i) * all(along));
            store(d_x[t] + i, load(d_x[t] + i) + change);
            store(d_weight + i, load(d_weight + i) + load(d_out[t] + i) * load(x[t] + i) * all(scale));
        }
    }
}

// Turns pairs of neighbours by the angles of the position; back with sign -1.
static void rotate(const struct work *w, int t, float *x, int count, float sign, float scale) {
    for (int head = 0; head < count; head++) {
        for (int i = 0; i < HEAD / 2; i++) {
            float c = w->cos[t][i], s = sign * w->sin[t][i];
            float real = x[2 * i] * scale, imaginary = x[2 * i + 1] * scale;
            x[2 * i] = real * c - imaginary * s;
            x[2 * i + 1] = real * s + imaginary * c;
        }
        x += HEAD;
    }
}

static int whole_blocks(int len) { return (len + LANES - 1) / LANES * LANES; }

// The part of a matrix that belongs to a head, zeros up to a multiple of LANES.
static void gather(int len, const float *from, int from_row, rows out) {
    for (int t = 0; t < len; t++) memcpy(out[t], from + t * from_row, sizeof out[t]);
    memset(out[len], 0, (whole_blocks(len) - len) * sizeof out[0]);
}

static void scatter(int len, const columns from, float *out, int out_row) {
    for (int t = 0; t < len; t++) {
        for (int d = 0; d < HEAD; d++) out[t * out_row + d] = from[t / LANES][d][t % LANES];
    }
}

static void to_columns(int len, const rows from, columns out) {
    for (int t = 0; t < whole_blocks(len); t++) {
        for (int d = 0; d < HEAD; d++) out[t / LANES][d][t % LANES] = from[t][d];
    }
}

static inline floats dot(const float x[HEAD], const float block[HEAD][LANES]) {
    floats s = all(x[0]) * load(block[0]);
    for (int d = 1; d < HEAD; d++) s += all(x[d]) * load(block[d]);
    return s;
}

static inline void add_times(floats sums[HEAD], floats x, const float y[HEAD]) {
    for (int d = 0; d < HEAD; d++) sums[d] += x * all(y[d]);
}

static inline void load_columns(floats to[HEAD], const float from[HEAD][LANES]) {
    for (int d = 0; d < HEAD; d++) to[d] = load(from[d]);
}

static inline void store_columns(float to[HEAD][LANES], const floats from[HEAD]) {
    for (int d = 0; d < HEAD; d++) store(to[d], from[d]);
}

static const ints COUNT = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Lanes are queries.
static void attention(struct work *w, int len, struct layer *l) {
    _Alignas(64) float scores[MAX_LEN][LANES];
    for (int head = 0; head < HEADS; head++) {
        int kv = head / (HEADS / KV_HEADS);
        gather(len, l->qkv[0] + head * HEAD, QKV, w->queries);
        gather(len, l->qkv[0] + DIM + kv * HEAD, QKV, w->keys);
        gather(len, l->qkv[0] + DIM + KV + kv * HEAD, QKV, w->values);
        to_columns(len, w->queries, w->query_columns);
        for (int first = 0; first < len; first += LANES) {
            int end = first + LANES < len ? first + LANES : len;
            floats highest = all(-1e30f);
            for (int t = 0; t < end; t++) {
                floats s = dot(w->keys[t], w->query_columns[first / LANES]);
                if (t > first) s = pick(COUNT + first >= t, s, all(-1e30f));
                store(scores[t], s);
                highest = larger(s, highest);
            }
            floats total = all(0), out[HEAD] = {};
            for (int t = 0; t < end; t++) {
                floats e = exp_floats(load(scores[t]) - highest);
                total += e;
                add_times(out, e, w->values[t]);
            }
            floats inverse = all(1) / total;
            for (int t = first; t < end; t++) {
                l->log_sum[head][t] = highest[t - first] + logf(total[t - first]);
                for (int d = 0; d < HEAD; d++) {
                    l->attention[t][head * HEAD + d] = out[d][t - first] * inverse[t - first];
                }
            }
        }
    }
}

// Swaps rows and columns of a square of lanes, halves of it first.
static inline void flip(float square[LANES][LANES]) {
    floats row[LANES];
    for (int i = 0; i < LANES; i++) row[i] = load(square[i]);
    #pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2) {
        ints lower = (COUNT & half) == 0;
        ints upper_right = (COUNT & lower) | ((COUNT + LANES - half) & ~lower);
        ints lower_left = ((COUNT + half) & lower) | ((COUNT + LANES) & ~lower);
        #pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            if (i & half) continue;
            floats a = row[i], b = row[i + half];
            row[i] = __builtin_shuffle(a, b, upper_right);
            row[i + half] = __builtin_shuffle(a, b, lower_left);
        }
    }
    for (int i = 0; i < LANES; i++) store(square[i], row[i]);
}

// Lanes are keys, but for the gradient of queries.
static void attention_back(struct work *w, int len, const struct layer *l,
                           const float (*d_out)[DIM], float (*d_qkv)[QKV]) {
    _Alignas(64) float p[LANES][LANES], d_s[LANES][LANES], along[MAX_LEN];
    for (int head = 0; head < HEADS; head++) {
        int group = HEADS / KV_HEADS, kv = head / group;
        if (head % group == 0) {
            gather(len, l->qkv[0] + DIM + kv * HEAD, QKV, w->keys);
            gather(len, l->qkv[0] + DIM + KV + kv * HEAD, QKV, w->values);
            to_columns(len, w->keys, w->key_columns);
            to_columns(len, w->values, w->value_columns);
            memset(w->d_keys, 0, sizeof w->d_keys);
            memset(w->d_values, 0, sizeof w->d_values);
        }
        gather(len, l->qkv[0] + head * HEAD, QKV, w->queries);
        gather(len, d_out[0] + head * HEAD, DIM, w->d_out);
        memset(w->d_queries, 0, sizeof w->d_queries);
        for (int t = 0; t < len; t++) {
            along[t] = 0;
            for (int d = 0; d < HEAD; d++) {
                along[t] += w->d_out[t][d] * l->attention[t][head * HEAD + d];
            }
        }
        for (int key = 0; key < len; key += LANES) {
            floats d_k[HEAD], d_v[HEAD], d_q[HEAD];
            load_columns(d_k, w->d_keys[key / LANES]);
            load_columns(d_v, w->d_values[key / LANES]);
            for (int query = key; query < len; query += LANES) {
                int count = len - query < LANES ? len - query : LANES;
                memset(d_s, 0, sizeof d_s);
                for (int i = 0; i < count; i++) {
                    int t = query + i;
                    floats s = dot(w->queries[t], w->key_columns[key / LANES]);
                    floats e = exp_floats(s - all(l->log_sum[head][t]));
                    if (query == key) e = pick(COUNT <= i, e, all(0));
                    store(p[i], e);
                    floats d_p = dot(w->d_out[t], w->value_columns[key / LANES]);
                    store(d_s[i], e * (d_p - all(along[t])));
                }
                for (int i = 0; i < count; i++) {
                    add_times(d_k, load(d_s[i]), w->queries[query + i]);
                    add_times(d_v, load(p[i]), w->d_out[query + i]);
                }
                flip(d_s);
                load_columns(d_q, w->d_queries[query / LANES]);
                for (int i = 0; i < LANES; i++) add_times(d_q, load(d_s[i]), w->keys[key + i]);
                store_columns(w->d_queries[query / LANES], d_q);
            }
            store_columns(w->d_keys[key / LANES], d_k);
            store_columns(w->d_values[key / LANES], d_v);
        }
        scatter(len, w->d_queries, d_qkv[0] + head * HEAD, QKV);
        if (head % group == group - 1) {
            scatter(len, w->d_keys, d_qkv[0] + DIM + kv * HEAD, QKV);
            scatter(len, w->d_values, d_qkv[0] + DIM + KV + kv * HEAD, QKV);
        }
    }
}

static void gate(int len, struct layer *l) {
    for (int t = 0; t < len; t++) {
        for (int i = 0; i < HIDDEN; i += LANES) {
            floats x = load(l->w13[t] + i);
            floats silu = x / (all(1) + exp_floats(-x));
            store(l->gated[t] + i, silu * load(l->w13[t] + HIDDEN + i));
        }
    }
}

static void gate_back(int len, const struct layer *l, const float (*d_gated)[HIDDEN],
                      float (*d_w13)[2 * HIDDEN]) {
    for (int t = 0; t < len; t++) {
        for (int i = 0; i < HIDDEN; i += LANES) {
            floats x = load(l->w13[t] + i), up = load(l->w13[t] + HIDDEN + i);
            floats d = load(d_gated[t] + i);
            floats sigmoid = all(1) / (all(1) + exp_floats(-x));
            floats slope = sigmoid * (all(1) + x * (all(1) - sigmoid));
            store(d_w13[t] + i, d * up * slope);
            store(d_w13[t] + HIDDEN + i, d * x * sigmoid);
        }
    }
}

static void forward(struct work *w, const struct weights *weights, int len, const int32_t *tokens) {
    const struct transposed *wt = &w->transposed;
    for (int t = 0; t < len; t++) {
        memcpy(w->layers[0].in[t], weights->embedding[tokens[t]], sizeof w->layers[0].in[t]);
    }
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &w->layers[i];
        norm(len, l->in, weights->attention_norm[i], l->normed);
        product(len, QKV, DIM, l->normed[0], DIM, 1, wt->qkv[i][0], QKV, l->qkv[0], QKV, 0);
        for (int t = 0; t < len; t++) {
            rotate(w, t, l->qkv[t], HEADS, 1, 1 / sqrtf(HEAD));
            rotate(w, t, l->qkv[t] + DIM, KV_HEADS, 1, 1);
        }
        attention(w, len, l);
        memcpy(l->between, l->in, len * sizeof l->in[0]);
        product(len, DIM, DIM, l->attention[0], DIM, 1, wt->wo[i][0], DIM, l->between[0], DIM, 1);
        norm(len, l->between, weights->ffn_norm[i], l->normed_between);
        product(len, 2 * HIDDEN, DIM, l->normed_between[0], DIM, 1, wt->w13[i][0], 2 * HIDDEN,
                l->w13[0], 2 * HIDDEN, 0);
        gate(len, l);
        float(*out)[DIM] = i + 1 < LAYERS ? w->layers[i + 1].in : w->out;
        memcpy(out, l->between, len * sizeof out[0]);
        product(len, DIM, HIDDEN, l->gated[0], HIDDEN, 1, wt->w2[i][0], DIM, out[0], DIM, 1);
    }
    norm(len, w->out, weights->final_norm, w->normed);
}

// Logits become gradients of the loss; returns the loss of the position. See loss_and_gradient.
static float loss_of(float *logits, const int32_t *groups, int target, int count,
                     const int32_t *ids, const float *shares, float scale) {
    if (target < 0) {
        memset(logits, 0, VOCAB * sizeof *logits);
        return 0;
    }
    floats top = load(logits);
    for (int i = LANES; i < VOCAB; i += LANES) top = larger(load(logits + i), top);
    floats highest = all(largest(top)), total = all(0);
    for (int i = 0; i < VOCAB; i += LANES) {
        floats e = exp_floats(load(logits + i) - highest);
        total += e;
        store(logits + i, e);
    }
    // What is said of groups, in probabilities, and what is known of them.
    float said[VOCAB] = {0}, known[VOCAB] = {0}, per[VOCAB];
    float normal = 1 / sum(total), mass = 0;
    for (int i = 0; i < VOCAB; i++) said[groups[i]] += logits[i] * normal;
    for (int i = 0; i < count; i++) {
        known[groups[ids[i]]] += shares[i];
        mass += shares[i];
    }
    int group = groups[target];
    float loss = 0;
    for (int i = 0; i < VOCAB; i++) {
        said[i] += 1e-30f;
        if (known[i] > 0) loss -= known[i] * logf(said[i]);
        per[i] = (known[i] - (i == group)) / said[i];
    }
    loss -= logf((logits[target] * normal + 1e-30f) / said[group]);
    for (int i = 0; i < VOCAB; i++) logits[i] *= normal * scale * (mass - per[groups[i]]);
    logits[target] -= scale;
    return loss;
}

static void backward(struct work *w, const struct weights *weights, struct weights *g, int len,
                     const int32_t *tokens) {
    for (int i = LAYERS - 1; i >= 0; i--) {
        struct layer *l = &w->layers[i];
        product(len, HIDDEN, DIM, w->d_x[0], DIM, 1, weights->w2[i][0], HIDDEN, w->d_gated[0],
                HIDDEN, 0);
        weight_gradient(DIM, HIDDEN, len, w->d_x[0], DIM, l->gated[0], HIDDEN, g->w2[i][0]);
        gate_back(len, l, w->d_gated, w->d_w13);
        weight_gradient(HIDDEN, DIM, len, w->d_w13[0], 2 * HIDDEN, l->normed_between[0], DIM,
                        g->w1[i][0]);
        weight_gradient(HIDDEN, DIM, len, w->d_w13[0] + HIDDEN, 2 * HIDDEN, l->normed_between[0],
                        DIM, g->w3[i][0]);
        product(len, DIM, HIDDEN, w->d_w13[0], 2 * HIDDEN, 1, weights->w1[i][0], DIM,
                w->d_normed[0], DIM, 0);
        product(len, DIM, HIDDEN, w->d_w13[0] + HIDDEN, 2 * HIDDEN, 1, weights->w3[i][0], DIM,
                w->d_normed[0], DIM, 1);
        norm_back(len, l->between, weights->ffn_norm[i], w->d_normed, w->d_x, g->ffn_norm[i]);

        product(len, DIM, DIM, w->d_x[0], DIM, 1, weights->wo[i][0], DIM, w->d_attention[0], DIM, 0);
        weight_gradient(DIM, DIM, len, w->d_x[0], DIM, l->attention[0], DIM, g->wo[i][0]);
        attention_back(w, len, l, w->d_attention, w->d_qkv);
        for (int t = 0; t < len; t++) {
            rotate(w, t, w->d_qkv[t], HEADS, -1, 1 / sqrtf(HEAD));
            rotate(w, t, w->d_qkv[t] + DIM, KV_HEADS, -1, 1);
        }
        const float *d_q = w->d_qkv[0], *d_k = d_q + DIM, *d_v = d_k + KV;
        weight_gradient(DIM, DIM, len, d_q, QKV, l->normed[0], DIM, g->wq[i][0]);
        weight_gradient(KV, DIM, len, d_k, QKV, l->normed[0], DIM, g->wk[i][0]);
        weight_gradient(KV, DIM, len, d_v, QKV, l->normed[0], DIM, g->wv[i][0]);
        float *d_normed = w->d_normed[0];
        product(len, DIM, DIM, d_q, QKV, 1, weights->wq[i][0], DIM, d_normed, DIM, 0);
        product(len, DIM, KV, d_k, QKV, 1, weights->wk[i][0], DIM, d_normed, DIM, 1);
        product(len, DIM, KV, d_v, QKV, 1, weights->wv[i][0], DIM, d_normed, DIM, 1);
        norm_back(len, l->in, weights->attention_norm[i], w->d_normed, w->d_x,
                  g->attention_norm[i]);
    }
    for (int t = 0; t < len; t++) {
        for (int i = 0; i < DIM; i++) g->embedding[tokens[t]][i] += w->d_x[t][i];
    }
}

// How many weights there are: a check that both sides mean the same model.
int weight_count(void) { return sizeof(struct weights) / sizeof(float); }

// Adds the gradient of the loss times `scale` to `gradient`, unless that is null, and writes the
// losses of all positions to `losses`.
//
// There are `batch` sequences, one after the other, of lengths[batch] tokens: multiples of 4, at
// most 512. Ids are below 512.
//
// groups[512] is a number below 512 for each token: tokens with equal numbers are a group. What is
// known of a position is the token that came, targets[position], or -1 for a position without loss;
// and how likely each group was, the sum of shares[position][count] of its tokens
// ids[position][count]. The loss is the cross-entropy of the group plus that of the token within
// its group.
void loss_and_gradient(const struct weights *given, struct weights *gradient, int batch,
                      const int32_t *lengths, const int32_t *tokens, const int32_t *groups,
                      const int32_t *targets, int count, const int32_t *ids, const float *shares,
                      float scale, float *losses) {
    static _Thread_local struct work work;
    struct work *w = &work;
    w->weights = *given;
    const struct weights *weights = &w->weights;
    struct transposed *wt = &w->transposed;
    transpose(VOCAB, DIM, weights->embedding[0], wt->embedding[0], VOCAB);
    for (int i = 0; i < LAYERS; i++) {
        transpose(DIM, DIM, weights->wq[i][0], wt->qkv[i][0], QKV);
        transpose(KV, DIM, weights->wk[i][0], wt->qkv[i][0] + DIM, QKV);
        transpose(KV, DIM, weights->wv[i][0], wt->qkv[i][0] + DIM + KV, QKV);
        transpose(DIM, DIM, weights->wo[i][0], wt->wo[i][0], DIM);
        transpose(HIDDEN, DIM, weights->w1[i][0], wt->w13[i][0], 2 * HIDDEN);
        transpose(HIDDEN, DIM, weights->w3[i][0], wt->w13[i][0] + HIDDEN, 2 * HIDDEN);
        transpose(DIM, HIDDEN, weights->w2[i][0], wt->w2[i][0], DIM);
    }
    for (int t = 0; t < MAX_LEN; t++) {
        for (int i = 0; i < HEAD / 2; i++) {
            double angle = t * pow(ROPE_BASE, -2.0 * i / HEAD);
            w->cos[t][i] = cos(angle);
            w->sin[t][i] = sin(angle);
        }
    }
    for (int sequence = 0; sequence < batch; sequence++) {
        int len = lengths[sequence];
        forward(w, weights, len, tokens);
        for (int at = 0; at < len; at += 64) {
            int part = len - at < 64 ? len - at : 64;
            product(part, VOCAB, DIM, w->normed[at], DIM, 1, wt->embedding[0], VOCAB, w->logits[0],
                    VOCAB, 0);
            for (int t = at; t < at + part; t++) {
                *losses++ = loss_of(w->logits[t - at], groups, targets[t], count, ids + t * count,
                                    shares + t * count, scale);
            }
            if (!gradient) continue;
            product(part, DIM, VOCAB, w->logits[0], VOCAB, 1, weights->embedding[0], DIM,
                    w->d_normed[at], DIM, 0);
            weight_gradient(VOCAB, DIM, part, w->logits[0], VOCAB, w->normed[at], DIM,
                            gradient->embedding[0]);
        }
        if (gradient) {
            memset(w->d_x, 0, sizeof w->d_x);
            norm_back(len, w->out, weights->final_norm, w->d_normed, w->d_x, gradient->final_norm);
            backward(w, weights, gradient, len, tokens);
        }
        tokens += len;
        targets += len;
        ids += len * count;
        shares += len * count;
    }
}
