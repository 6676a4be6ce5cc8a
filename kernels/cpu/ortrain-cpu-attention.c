/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-gemm.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-philox.h"
#include "ortrain-cpu-rows.h"

/* Scaled dot product attention, softmax (scale · q·kᵀ + mask + bias) · v, in blocks of queries: the scores of a block
 * stay in the cache and are never written to memory. The forward pass keeps one number per row (lse), the backward pass
 * makes the probabilities again from it. Keys that a block cannot see (causal masks, padding) are not computed.
 * Operands are [batch, heads, length, width], or [batch, length, heads, width] where `packed` says so: rows then lie
 * further apart, and the transposes around attention are not needed. Every operand has a type of its own; with 16 bits,
 * the queries of a block and a tile of keys are widened, and the gradients of keys and values are summed in float32 for
 * a head. The gradient of the bias is summed in its own shape: over the axes that it is broadcast along, always in the
 * same order.
 *
 * Relative attention has two terms more, as DeBERTa defines them: key_scale · q·position_keysᵀ, of which each score
 * reads the column that key_index says, and query_scale · k·position_queriesᵀ, likewise. Their products are [block,
 * positions] and [keys, positions]; scores are gathered from them in the cache, and gradients added to them there. */

#define MASKED -1e30       /* added to a masked score */
#define LOST -1e3          /* below this, lse holds too few digits of the logarithm of a sum: all of a row is masked */
#define ATTENTION_TILE 512 /* keys that are widened at once */
#define SHARED_UNITS 8     /* units of work, at least, where gradients are summed over batch or heads */

typedef enum
{
  MASK_NONE,
  MASK_BOOL, /* FALSE: masked_value is added */
  MASK_ADD,
} MaskKind;

/* An operand that is added to scores: [batch, heads, queries, keys], or 1 in place of any of these. */
typedef struct
{
  MaskKind kind;
  gint64 batch, head, row, key; /* strides, 0 where it is the same for all */
} AttentionMask;

typedef struct
{
  gint64 start, batch_step, head_step, pitch, width; /* in elements */
  gsize buffer;                                      /* offset of the widened operand in a thread's scratch memory */
} AttentionOperand;

/* Keys or queries of positions, [1, heads, positions, width], and the index [queries, keys] of the position that a
 * score reads. A compact index depends on the difference alone: entry key - query + queries - 1. */
typedef struct
{
  gboolean used, compact, is_64, of_keys; /* of_keys: the index is [keys, queries], or counts the other way */
  AttentionOperand side;
  gint64 positions, first, n; /* the index names only those of [first, first + n) */
  double scale;
  gsize table_offset;             /* gint32 [queries + keys - 1], in the workspace: a compact index, less `first` */
  gsize row, products, dproducts; /* in a thread's scratch memory */
  gboolean has_gradient;
  gsize sums_offset; /* of parts [parts, heads, positions, width]; 0: straight to the output */
} AttentionPositions;

enum
{
  POSITION_KEYS,    /* content to position */
  POSITION_QUERIES, /* position to content */
  N_POSITIONS
};

/* Dropout of probabilities, counted in the order of [batch, heads, queries, keys]. */
typedef struct
{
  gboolean used, has_node;
  guint input; /* the ratio; the next input is `training` */
  guint32 node;
  OrtrainDType dtype; /* of the ratio */
  gsize factors;      /* of one row, in a thread's scratch memory */
} AttentionDropout;

typedef struct
{
  OrtrainDType dtype;
  OrtrainRowsTypes types;
  gboolean is_packed; /* q, k and v are parts of one operand, and their gradients are */
  gint64 batch, heads, n_queries, n_keys;
  AttentionOperand q, k, v, y;
  double scale, masked_value;
  enum
  {
    GUARD_NONE,
    GUARD_NAN,  /* a row of NaN becomes zeros */
    GUARD_BLIND /* a row whose mask lets nothing through does */
  } guard;
  AttentionMask mask, bias;
  gboolean fills; /* a bool mask replaces scores instead of adding to them */
  gboolean is_relative;
  AttentionPositions positions[N_POSITIONS];
  AttentionDropout dropout;
  gint64 mask_batches, mask_heads;
  gboolean has_ranges;
  /* Gradients of operands that heads share: of one slice (batch, head) of it in one unit, or in `parts`, whose sums are
   * added up. */
  gboolean has_shared, has_dbias;
  gint64 slices, slice_elements, members, parts; /* members: pairs of batch and head with the same slice */
  gsize sums_offset; /* of parts [parts, slices, slice_elements]; 0: straight to the output */
  gint64 block, n_blocks, tile;
  gsize dq_buffer, dk_buffer, dv_buffer;
  gsize scratch_elements, scratch_offset; /* per thread */
} AttentionPlan;

typedef struct
{
  const AttentionPlan *plan;
  OrtrainRows q, k, v, mask, bias, dy;
  OrtrainRows y, lse, dq, dk, dv, dbias;
  OrtrainRows positions[N_POSITIONS], dpositions[N_POSITIONS];
  gconstpointer indices[N_POSITIONS];
  const OrtrainKernelCall *call;
  gint32 *ranges; /* [mask_batches, mask_heads, n_blocks, 2] */
  gpointer scratch, sums;
  gboolean drops;
  OrtrainPhiloxKey key;
  guint32 threshold;   /* elements with a smaller random number are dropped */
  double kept;         /* factor of the other elements */
  guint64 accumulates; /* bit k: output k */
} AttentionRun;

static inline gint64
base_of (const AttentionOperand *operand, gint64 b, gint64 h)
{
  return operand->start + b * operand->batch_step + h * operand->head_step;
}

static inline gint64
get_index (const AttentionRun *run, const AttentionPositions *self, gint64 i)
{
  const gconstpointer indices = run->indices[self - run->plan->positions];
  const gint64 index = self->is_64 ? ((const gint64 *) indices)[i] : ((const gint32 *) indices)[i];
  const gint64 place = index < 0 ? index + self->positions : index;
  if (G_LIKELY (place >= self->first && place < self->first + self->n))
    return place - self->first;
  ortrain_kernel_fault (run->call, ORTRAIN_FAULT_INDEX, i, index, self->positions);
  return 0;
}

/* The positions, less `first`, that the scores of a row read, by key. scratch: [keys]. */
static inline const gint32 *
get_index_row (const AttentionRun *run, const AttentionPositions *self, gint64 row, gint32 *scratch)
{
  const AttentionPlan *plan = run->plan;
  if (self->compact)
    return (const gint32 *) ((const guint8 *) run->call->workspace + self->table_offset) + plan->n_queries - 1 - row;
  for (gint64 j = 0; j < plan->n_keys; j++)
    scratch[j] = (gint32) get_index (run, self, self->of_keys ? j * plan->n_queries + row : row * plan->n_keys + j);
  return scratch;
}

#define REAL float
#define R(name) name##_f32
#define EXP(x) ortrain_lane_expf (x)
#define GEMM ortrain_cpu_gemm_f32
#include "ortrain-cpu-attention-template.h"
#undef REAL
#undef R
#undef EXP
#undef GEMM
#define REAL double
#define R(name) name##_f64
#define EXP(x) exp (x)
#define GEMM ortrain_cpu_gemm_f64
#include "ortrain-cpu-attention-template.h"
#undef REAL
#undef R
#undef EXP
#undef GEMM

#define CALL(plan, name) ((plan)->dtype == ORTRAIN_DTYPE_FLOAT32 ? name##_f32 : name##_f64)

static void
describe (AttentionOperand *self, const OrtrainOperand *operand, gboolean packed, gint64 *heads, gint64 *length)
{
  *heads = operand->dims[packed ? 2 : 1];
  *length = operand->dims[packed ? 1 : 2];
  self->width = operand->dims[3];
  self->pitch = packed ? *heads * self->width : self->width;
  self->head_step = packed ? self->width : *length * self->width;
  self->batch_step = *heads * *length * self->width;
}

static gboolean
describe_mask (const AttentionPlan *plan, AttentionMask *self, const OrtrainOperand *q, const OrtrainOperand *mask)
{
  const gint64 full[] = { plan->batch, plan->heads, plan->n_queries, plan->n_keys };
  gint64 *strides[] = { &self->batch, &self->head, &self->row, &self->key }, step = 1;
  if (mask->rank > 4 || (mask->dtype != ORTRAIN_DTYPE_BOOL && !ortrain_rows_fit (mask, q)))
    return FALSE;
  self->kind = mask->dtype == ORTRAIN_DTYPE_BOOL ? MASK_BOOL : MASK_ADD;
  for (guint i = 0; i < mask->rank; i++)
    {
      guint d = mask->rank - 1 - i;
      if (mask->dims[d] != 1 && mask->dims[d] != full[3 - i])
        return FALSE;
      *strides[3 - i] = mask->dims[d] == 1 ? 0 : step;
      step *= mask->dims[d];
    }
  return TRUE;
}

/* Sums over pairs of batch and head that share a slice need memory where they are made in parts, or in another type.
 * Returns its offset, or 0. */
static gsize
reserve_sums (const AttentionPlan *plan, const OrtrainOperand *gradient, gint64 n_elements, OrtrainKernelSetup *setup)
{
  const gsize offset = (setup->workspace_bytes + 63) & ~(gsize) 63;
  if (plan->parts == 1 && gradient->dtype == plan->dtype)
    return 0;
  setup->workspace_bytes = offset + (gsize) (plan->parts * n_elements) * ortrain_dtype_get_size (plan->dtype);
  return offset;
}

/* dbias: or NULL, if it is not wanted. */
static void
plan_bias_gradient (AttentionPlan *plan, const OrtrainOperand *dbias, OrtrainKernelSetup *setup)
{
  const AttentionMask *bias = &plan->bias;
  if (dbias == NULL || bias->kind == MASK_NONE)
    return;
  plan->has_shared = plan->has_dbias = TRUE;
  plan->slices = (bias->batch ? plan->batch : 1) * (bias->head ? plan->heads : 1);
  plan->slice_elements = (bias->row ? plan->n_queries : 1) * (bias->key ? plan->n_keys : 1);
  plan->members = (bias->batch ? 1 : plan->batch) * (bias->head ? 1 : plan->heads);
  plan->parts = CLAMP (SHARED_UNITS / MAX (1, plan->slices), 1, MAX (1, plan->members));
  plan->sums_offset = reserve_sums (plan, dbias, plan->slices * plan->slice_elements, setup);
}

/* gradients: those of both operands of positions, NULL where not wanted. */
static void
plan_position_gradients (AttentionPlan *plan, const OrtrainOperand *const *gradients, OrtrainKernelSetup *setup)
{
  plan->slices = plan->heads;
  plan->members = plan->batch;
  plan->parts = CLAMP (SHARED_UNITS / MAX (1, plan->heads), 1, MAX (1, plan->batch));
  for (guint i = 0; i < N_POSITIONS; i++)
    {
      AttentionPositions *self = &plan->positions[i];
      if (!self->used || gradients[i] == NULL)
        continue;
      plan->has_shared = self->has_gradient = TRUE;
      self->sums_offset = reserve_sums (plan, gradients[i], plan->heads * self->positions * self->side.width, setup);
    }
}

/* Room for rows of an operand, if it has 16 bits. */
static void
reserve (AttentionPlan *plan, gsize *buffer, OrtrainDType dtype, gint64 rows, gint64 width)
{
  *buffer = plan->scratch_elements;
  if (ortrain_dtype_is_half (dtype))
    plan->scratch_elements += ((gsize) rows * (gsize) width + 15) & ~(gsize) 15;
}

/* Which positions the index names, if it is known. */
static void
find_positions (AttentionPositions *self, const OrtrainOperand *index)
{
  gint64 lo = self->positions, hi = 0;
  self->n = self->positions;
  for (gint64 i = 0; i < index->n_elements && index->constant != NULL; i++)
    {
      const gint64 k = self->is_64 ? ((const gint64 *) index->constant)[i] : ((const gint32 *) index->constant)[i];
      const gint64 place = k < 0 ? k + self->positions : k;
      if (place < 0 || place >= self->positions)
        return;
      lo = MIN (lo, place);
      hi = MAX (hi, place + 1);
    }
  if (lo < hi)
    {
      self->first = lo;
      self->n = hi - lo;
    }
}

/* operand: [1, heads, positions, width], in either order; index: [queries + keys - 1], or the matrix. */
static gboolean
describe_positions (const AttentionPlan *plan, AttentionPositions *self, const OrtrainOperand *q,
                    const OrtrainOperand *operand, const OrtrainOperand *index, gboolean packed)
{
  const gint64 rows = self->of_keys ? plan->n_keys : plan->n_queries;
  const gint64 columns = self->of_keys ? plan->n_queries : plan->n_keys;
  gint64 heads;
  if (operand == NULL && index == NULL)
    return TRUE;
  if (operand == NULL || index == NULL || operand->rank != 4 || operand->dims[0] != 1 ||
      !ortrain_rows_fit (operand, q) || index->rank < 1)
    return FALSE;
  describe (&self->side, operand, packed, &heads, &self->positions);
  self->used = TRUE;
  self->is_64 = index->dtype == ORTRAIN_DTYPE_INT64;
  self->compact = index->rank == 1;
  if (heads != plan->heads || self->side.width != plan->q.width || self->positions < 1 || self->positions > G_MAXINT32)
    return FALSE;
  if (self->compact ? index->n_elements != MAX (0, rows + columns - 1)
                    : index->n_elements != rows * columns || index->dims[index->rank - 1] != columns)
    return FALSE;
  find_positions (self, index);
  return TRUE;
}

/* Memory for the products, and for the part of the index that the call keeps. */
static void
reserve_positions (AttentionPlan *plan, const OrtrainOperand *const *operands, gboolean grad)
{
  for (guint i = 0; i < N_POSITIONS; i++)
    {
      AttentionPositions *self = &plan->positions[i];
      const gint64 rows = i == POSITION_KEYS ? plan->block : plan->n_keys;
      const gsize n = ((gsize) rows * (gsize) self->n + 15) & ~(gsize) 15;
      if (!self->used)
        continue;
      self->row = plan->scratch_elements;
      if (!self->compact)
        plan->scratch_elements += ((gsize) plan->n_keys + 15) & ~(gsize) 15;
      self->products = self->dproducts = plan->scratch_elements;
      plan->scratch_elements += n;
      if (grad && i == POSITION_QUERIES)
        {
          self->dproducts = plan->scratch_elements;
          plan->scratch_elements += n;
        }
      reserve (plan, &self->side.buffer, operands[i]->dtype, self->n, self->side.width);
      if (self->compact)
        {
          self->table_offset = plan->scratch_offset;
          plan->scratch_offset += ((gsize) (plan->n_queries + plan->n_keys) * sizeof (gint32) + 63) & ~(gsize) 63;
        }
    }
}

/* Part i of [batch, length, 3, heads, width]. */
static void
describe_part (AttentionOperand *self, const OrtrainOperand *packed, gint64 i, gint64 *heads, gint64 *length)
{
  *length = packed->dims[1];
  *heads = packed->dims[3];
  self->width = packed->dims[4];
  self->start = i * *heads * self->width;
  self->pitch = 3 * *heads * self->width;
  self->head_step = self->width;
  self->batch_step = *length * self->pitch;
}

static void
reserve_tiles (AttentionPlan *plan, const OrtrainOperand *const *operands, gboolean grad)
{
  const OrtrainDType *in = plan->types.inputs, *out = plan->types.outputs;
  plan->tile = plan->types.narrow ? MIN (plan->n_keys, ATTENTION_TILE) : plan->n_keys;
  plan->tile = MAX (plan->tile, 1);
  reserve (plan, &plan->q.buffer, operands[0]->dtype, plan->block, plan->q.width);
  reserve (plan, &plan->k.buffer, operands[1]->dtype, plan->tile, plan->k.width);
  reserve (plan, &plan->v.buffer, operands[2]->dtype, plan->tile, plan->v.width);
  reserve (plan, &plan->y.buffer, grad ? in[0] : out[0], plan->block, plan->y.width);
  if (!grad)
    return;
  reserve (plan, &plan->dq_buffer, out[0], plan->block, plan->q.width);
  reserve (plan, &plan->dk_buffer, out[plan->is_packed ? 0 : 1], plan->n_keys, plan->k.width);
  reserve (plan, &plan->dv_buffer, out[plan->is_packed ? 0 : 2], plan->n_keys, plan->v.width);
}

/* NULL: absent. */
static const OrtrainOperand *
get_optional (const OrtrainOperand *operands, guint n, guint i)
{
  return n > i && operands[i].dtype != ORTRAIN_DTYPE_UNDEFINED ? &operands[i] : NULL;
}

/* input: the number of the ratio. */
static void
plan_dropout (AttentionPlan *plan, OrtrainKernelSetup *setup, guint input)
{
  AttentionDropout *self = &plan->dropout;
  const OrtrainOperand *ratio = get_optional (setup->inputs, setup->n_inputs, input);
  self->used = get_optional (setup->inputs, setup->n_inputs, input + 1) != NULL;
  self->input = input;
  self->dtype = ratio != NULL ? ratio->dtype : ORTRAIN_DTYPE_UNDEFINED;
  self->has_node = ortrain_attributes_has (setup->attributes, "forward_node");
  self->node = (guint32) ortrain_attributes_get_int (setup->attributes, "forward_node", 0);
  self->factors = plan->scratch_elements;
  if (self->used)
    plan->scratch_elements += ((gsize) plan->n_keys + 15) & ~(gsize) 15;
}

/* FALSE: the ratio is not valid. */
static gboolean
start_dropout (const OrtrainKernelCall *call, AttentionRun *run)
{
  const AttentionDropout *self = &run->plan->dropout;
  double ratio = 0.5;
  if (!self->used || !*(const guint8 *) call->inputs[self->input + 1])
    return TRUE;
  if (self->dtype != ORTRAIN_DTYPE_UNDEFINED)
    ratio = ortrain_elements_load_real (self->dtype, call->inputs[self->input], 0);
  if (!(ratio >= 0 && ratio < 1))
    {
      ortrain_kernel_fault_number (call, self->input, ratio);
      return FALSE;
    }
  run->drops = ratio > 0;
  run->key = (OrtrainPhiloxKey){ call->context->step->seed, call->context->step->step,
                                 self->has_node ? self->node : call->node_number };
  run->threshold = (guint32) ceil (ratio * 0x1p24);
  run->kept = 1 / (1 - ratio);
  return TRUE;
}

/* q, k, v, all the same operand where it is packed; first: the number of the mask, which a bias may follow; positions:
 * that of the keys of positions, which their queries and both indices follow, or 0; matrices: how many blocks of scores
 * a thread holds. */
static gboolean
build_plan (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands, guint first, guint positions,
            guint matrices, GError **error)
{
  const OrtrainOperand *mask = get_optional (setup->inputs, setup->n_inputs, first);
  const OrtrainOperand *bias = positions == 0 ? get_optional (setup->inputs, setup->n_inputs, first + 1) : NULL;
  const OrtrainOperand *of_positions[N_POSITIONS];
  AttentionPlan *plan = g_new0 (AttentionPlan, 1);
  AttentionOperand *sides[] = { &plan->q, &plan->k, &plan->v };
  gint64 packed = ortrain_attributes_get_int (setup->attributes, "packed", 0), heads[3] = { 0 }, length[3] = { 0 };
  gboolean fits = TRUE;
  setup->constants = plan;
  setup->constants_free = g_free;
  plan->is_packed = operands[1] == operands[0];
  for (int i = 0; i < 3; i++)
    fits = fits && operands[i]->rank == (plan->is_packed ? 5 : 4) && ortrain_rows_fit (operands[i], operands[0]);
  if (plan->is_packed)
    {
      packed = 15;
      fits = fits && operands[0]->dims[2] == 3;
    }
  if (fits)
    {
      for (int i = 0; i < 3; i++)
        if (plan->is_packed)
          describe_part (sides[i], operands[i], i, &heads[i], &length[i]);
        else
          describe (sides[i], operands[i], packed >> i & 1, &heads[i], &length[i]);
      plan->dtype = ortrain_rows_get_compute_dtype (operands[0]);
      ortrain_rows_describe (&plan->types, setup);
      plan->batch = operands[0]->dims[0];
      plan->heads = heads[0];
      plan->n_queries = length[0];
      plan->n_keys = length[1];
      fits = heads[1] == heads[0] && heads[2] == heads[0] && length[2] == length[1] && plan->k.width == plan->q.width &&
             operands[1]->dims[0] == plan->batch && operands[2]->dims[0] == plan->batch;
    }
  plan->scale = ortrain_attributes_get_float (setup->attributes, "scale", 1);
  plan->masked_value = ortrain_attributes_get_float (setup->attributes, "masked_value", -INFINITY);
  plan->guard = ortrain_attributes_get_int (setup->attributes, "guard", GUARD_NONE);
  if (fits && mask != NULL)
    fits = describe_mask (plan, &plan->mask, operands[0], mask);
  if (fits && bias != NULL)
    fits = bias->dtype != ORTRAIN_DTYPE_BOOL && describe_mask (plan, &plan->bias, operands[0], bias);
  plan->is_relative = positions > 0;
  for (guint i = 0; i < N_POSITIONS && plan->is_relative; i++)
    {
      of_positions[i] = get_optional (setup->inputs, setup->n_inputs, positions + i);
      plan->positions[i].of_keys = i == POSITION_QUERIES;
      plan->positions[i].scale =
          ortrain_attributes_get_float (setup->attributes, i == POSITION_KEYS ? "key_scale" : "query_scale", 1);
      fits = fits && describe_positions (plan, &plan->positions[i], operands[0], of_positions[i],
                                         get_optional (setup->inputs, setup->n_inputs, positions + N_POSITIONS + i),
                                         packed >> (4 + i) & 1);
    }
  plan->fills = plan->mask.kind == MASK_BOOL && ortrain_attributes_get_int (setup->attributes, "fill", 0) != 0;
  plan->mask_batches = plan->mask.batch ? plan->batch : 1;
  plan->mask_heads = plan->mask.head ? plan->heads : 1;
  plan->has_ranges = plan->mask.key != 0 && (plan->mask.kind == MASK_ADD || plan->masked_value <= MASKED);
  if (!fits)
    {
      g_clear_pointer (&setup->constants, g_free);
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: the shapes of q, k, v, mask and bias do not fit each other", setup->op_type);
      return FALSE;
    }
  plan->y.width = plan->v.width;
  plan->y.pitch = packed & 8 ? plan->heads * plan->y.width : plan->y.width;
  plan->y.head_step = packed & 8 ? plan->y.width : plan->n_queries * plan->y.width;
  plan->y.batch_step = plan->heads * plan->n_queries * plan->y.width;

  /* as many rows as keep the scores in the cache */
  gsize size = ortrain_dtype_get_size (plan->dtype);
  plan->block = CLAMP ((gint64) ((512 << 10) / matrices / size) / MAX (1, plan->n_keys), 16, 128);
  plan->block = MIN (plan->block, MAX (1, plan->n_queries));
  plan->n_blocks = (plan->n_queries + plan->block - 1) / plan->block;
  plan->scratch_elements = ((gsize) plan->block * (gsize) plan->n_keys * matrices + 15) & ~(gsize) 15;
  reserve_tiles (plan, operands, matrices > 1);
  if (plan->has_ranges)
    plan->scratch_offset =
        ((gsize) (plan->mask_batches * plan->mask_heads * plan->n_blocks) * 2 * sizeof (gint32) + 63) & ~(gsize) 63;
  reserve_positions (plan, of_positions, matrices > 1);
  plan_dropout (plan, setup, first + (positions > 0 ? 1 : 2));
  setup->workspace_bytes = plan->scratch_offset + plan->scratch_elements * size * ortrain_cpu_get_n_threads (setup);
  setup->flops = 2.0 * (double) (plan->batch * plan->heads) * (double) plan->n_queries * (double) plan->n_keys *
                 (double) (plan->q.width + plan->v.width) * (matrices == 1 ? 1 : 2.5);
  for (guint i = 0; i < N_POSITIONS; i++)
    setup->flops += 2.0 * (double) (plan->batch * plan->heads) *
                    (double) (i == POSITION_KEYS ? plan->n_queries : plan->n_keys) * (double) plan->positions[i].n *
                    (double) plan->q.width * (matrices == 1 ? 1 : 3);
  return TRUE;
}

/* FALSE: with a fault. */
static gboolean
start_run (const OrtrainKernelCall *call, AttentionRun *run)
{
  const AttentionPlan *plan = run->plan;
  if (!start_dropout (call, run))
    return FALSE;
  run->ranges = call->workspace;
  run->scratch = (guint8 *) call->workspace + plan->scratch_offset;
  for (guint i = 0; i < N_POSITIONS; i++)
    {
      const AttentionPositions *self = &plan->positions[i];
      gint32 *table = (gint32 *) ((guint8 *) call->workspace + self->table_offset);
      const gint64 n = plan->n_queries + plan->n_keys - 1;
      for (gint64 d = 0; d < n && self->compact; d++)
        table[d] = (gint32) get_index (run, self, self->of_keys ? n - 1 - d : d);
    }
  if (plan->has_ranges)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->mask_batches * plan->mask_heads * plan->n_blocks, 4,
                          CALL (plan, range_units), run);
  return TRUE;
}

/* Without keys or queries. */
static void
clear_operand (const AttentionPlan *plan, const OrtrainRows *rows, const AttentionOperand *shape)
{
  if (rows->data != NULL)
    memset (rows->data, 0, (gsize) (plan->batch * shape->batch_step) * ortrain_dtype_get_size (rows->dtype));
}

/* Attention (q, k, v[, mask, bias, ratio, training]) {scale, packed, masked_value, guard, forward_node} → (y, lse
 * [batch, heads, queries]) */
static gboolean
attention_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[0], &setup->inputs[1], &setup->inputs[2] };
  return build_plan (setup, operands, 3, 0, 1, error);
}

/* PackedAttention (qkv[, mask, bias, ratio, training]) */
static gboolean
packed_attention_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *qkv = &setup->inputs[0], *operands[] = { qkv, qkv, qkv };
  return build_plan (setup, operands, 1, 0, 1, error);
}

/* RelativeAttention (q, k, v, position_keys, position_queries, key_index, query_index[, mask, ratio, training]) {scale,
 * key_scale, query_scale, packed, masked_value, fill, forward_node} → (y, lse) */
static gboolean
relative_attention_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[0], &setup->inputs[1], &setup->inputs[2] };
  return build_plan (setup, operands, 7, 3, 1, error);
}

/* first: the number of the keys of positions. */
static void
find_position_operands (AttentionRun *run, const OrtrainKernelCall *call, guint first)
{
  const AttentionPlan *plan = run->plan;
  for (guint i = 0; i < N_POSITIONS; i++)
    if (plan->positions[i].used)
      {
        run->positions[i] = ortrain_rows_input (&plan->types, call, first + i);
        run->indices[i] = call->inputs[first + N_POSITIONS + i];
      }
}

static void
attention_run (const OrtrainKernelCall *call)
{
  const AttentionPlan *plan = call->constants;
  const gboolean is_packed = plan->is_packed;
  AttentionRun run = { .plan = plan, .call = call };
  run.q = ortrain_rows_input (&plan->types, call, 0);
  run.k = ortrain_rows_input (&plan->types, call, is_packed ? 0 : 1);
  run.v = ortrain_rows_input (&plan->types, call, is_packed ? 0 : 2);
  if (plan->mask.kind != MASK_NONE)
    run.mask = ortrain_rows_input (&plan->types, call, is_packed ? 1 : plan->is_relative ? 7 : 3);
  find_position_operands (&run, call, 3);
  if (plan->bias.kind != MASK_NONE)
    run.bias = ortrain_rows_input (&plan->types, call, is_packed ? 2 : 4);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  run.lse = ortrain_rows_output (&plan->types, call, 1);
  if (plan->n_keys == 0 || plan->n_queries == 0)
    {
      clear_operand (plan, &run.y, &plan->y);
      return;
    }
  if (!start_run (call, &run))
    return;
  /* blocks of one head share its widened keys and values, if there are enough heads for all threads, and its products
   * with positions */
  const gint64 heads = plan->batch * plan->heads;
  const gint64 grain = plan->is_relative || (plan->types.narrow && heads >= 32) ? plan->n_blocks : 1;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), heads * plan->n_blocks, grain, CALL (plan, forward_units), &run);
}

/* Not y, which is not needed here. */
static gboolean
attention_grad_takes (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  return get_optional (inputs, n_inputs, 9) == NULL;
}

/* AttentionGrad (dy, q, k, v, lse[, mask, bias, ratio, training]) → (dq, dk, dv, dbias) */
static gboolean
attention_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[1], &setup->inputs[2], &setup->inputs[3] };
  if (!build_plan (setup, operands, 5, 0, 2, error))
    return FALSE;
  plan_bias_gradient (setup->constants, get_optional (setup->outputs, setup->n_outputs, 3), setup);
  setup->can_accumulate = 1 << 3;
  return TRUE;
}

/* PackedAttentionGrad (dy, qkv, y, lse[, mask, bias, ratio, training]) → dqkv */
static gboolean
packed_attention_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *qkv = &setup->inputs[1], *operands[] = { qkv, qkv, qkv };
  return build_plan (setup, operands, 4, 0, 2, error);
}

/* RelativeAttentionGrad (dy, q, k, v, lse, position_keys, position_queries, key_index, query_index[, mask, ratio,
 * training]) → (dq, dk, dv, dposition_keys, dposition_queries) */
static gboolean
relative_attention_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[1], &setup->inputs[2], &setup->inputs[3] };
  const OrtrainOperand *gradients[] = { get_optional (setup->outputs, setup->n_outputs, 3),
                                        get_optional (setup->outputs, setup->n_outputs, 4) };
  if (!build_plan (setup, operands, 9, 5, 2, error))
    return FALSE;
  plan_position_gradients (setup->constants, gradients, setup);
  setup->can_accumulate = 3 << 3;
  return TRUE;
}

static void
run_shared (const OrtrainKernelCall *call, AttentionRun *run)
{
  const AttentionPlan *plan = run->plan;
  OrtrainThreadPool *pool = ortrain_cpu_get_pool (call);
  ortrain_parallel_for (pool, plan->slices * plan->parts, 1, CALL (plan, shared_units), run);
  if (run->sums != NULL)
    ortrain_parallel_for (pool, plan->slices * plan->slice_elements, 4096, CALL (plan, sum_parts), run);
  for (guint i = 0; i < N_POSITIONS; i++)
    if (plan->positions[i].sums_offset > 0)
      ortrain_parallel_for (pool, plan->heads * plan->positions[i].positions, 64,
                            i == POSITION_KEYS ? CALL (plan, sum_position_keys) : CALL (plan, sum_position_queries),
                            run);
}

static void
attention_grad_run (const OrtrainKernelCall *call)
{
  const AttentionPlan *plan = call->constants;
  const gboolean is_packed = plan->is_packed;
  AttentionRun run = { .plan = plan, .call = call };
  run.dy = ortrain_rows_input (&plan->types, call, 0);
  run.q = ortrain_rows_input (&plan->types, call, 1);
  run.k = ortrain_rows_input (&plan->types, call, is_packed ? 1 : 2);
  run.v = ortrain_rows_input (&plan->types, call, is_packed ? 1 : 3);
  run.lse = ortrain_rows_input (&plan->types, call, is_packed ? 3 : 4);
  if (plan->mask.kind != MASK_NONE)
    run.mask = ortrain_rows_input (&plan->types, call, is_packed ? 4 : plan->is_relative ? 9 : 5);
  find_position_operands (&run, call, 5);
  if (plan->bias.kind != MASK_NONE)
    run.bias = ortrain_rows_input (&plan->types, call, is_packed ? 5 : 6);
  run.dq = ortrain_rows_output (&plan->types, call, 0);
  run.dk = ortrain_rows_output (&plan->types, call, is_packed ? 0 : 1);
  run.dv = ortrain_rows_output (&plan->types, call, is_packed ? 0 : 2);
  if (plan->has_dbias)
    run.dbias = ortrain_rows_output (&plan->types, call, 3);
  for (guint i = 0; i < N_POSITIONS; i++)
    if (plan->positions[i].has_gradient)
      run.dpositions[i] = ortrain_rows_output (&plan->types, call, 3 + i);
  run.accumulates = ortrain_kernel_get_accumulate (call);
  run.sums = plan->sums_offset > 0 ? (guint8 *) call->workspace + plan->sums_offset : NULL;
  if (plan->n_keys == 0 || plan->n_queries == 0)
    {
      for (guint i = 0; i < N_POSITIONS; i++)
        if (run.dpositions[i].data != NULL && !(run.accumulates >> (3 + i) & 1))
          memset (run.dpositions[i].data, 0,
                  (gsize) plan->positions[i].side.batch_step * ortrain_dtype_get_size (run.dpositions[i].dtype));
      if (run.dbias.data != NULL && !(run.accumulates >> 3 & 1))
        memset (run.dbias.data, 0,
                (gsize) (plan->slices * plan->slice_elements) * ortrain_dtype_get_size (run.dbias.dtype));
      clear_operand (plan, &run.dq, &plan->q);
      clear_operand (plan, &run.dk, &plan->k);
      clear_operand (plan, &run.dv, &plan->v);
      return;
    }
  if (!start_run (call, &run))
    return;
  if (plan->has_shared)
    run_shared (call, &run);
  else
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->batch * plan->heads, 1, CALL (plan, backward_units), &run);
}

#define ROWS_THAT(name, prefix, run, which)                                                                            \
  { name, "org.ortrain", ORTRAIN_DTYPES_F32F64, prefix##_prepare, run, .takes = which },                               \
  {                                                                                                                    \
    name, "org.ortrain", ORTRAIN_DTYPES_MIXED, prefix##_prepare, run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED,            \
                                                                      .takes = which                                   \
  }
#define ROWS(name, prefix, run) ROWS_THAT (name, prefix, run, NULL)

static const OrtrainKernel kernels[] = {
  ROWS ("Attention", attention, attention_run),
  ROWS_THAT ("AttentionGrad", attention_grad, attention_grad_run, attention_grad_takes),
  ROWS ("PackedAttention", packed_attention, attention_run),
  ROWS ("PackedAttentionGrad", packed_attention_grad, attention_grad_run),
  ROWS ("RelativeAttention", relative_attention, attention_run),
  ROWS ("RelativeAttentionGrad", relative_attention_grad, attention_grad_run),
};
ORTRAIN_KERNEL_TABLE (attention, kernels);
