/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-fused-program-private.h"

#include "core/ortrain-checked-private.h"

#define MAX_DIMS 16
#define MAX_SLOTS 256
#define SHORT_ROW 512 /* rows shorter than this are worked on several at a time */
#define LEAST_ROW 16  /* rows shorter than this are not worth a loop for each of them */
#define MAX_BESIDE 3
#define CHUNK_COST 65536

/* How an input's elements are found in a tile. */
typedef enum
{
  ACCESS_VECTOR, /* they lie in order */
  ACCESS_SCALAR, /* it is one element */
  ACCESS_EXPAND, /* they are copied to a register, in the order of the output, before the first instruction */
} Access;

/* The output's elements as `n_rows` rows of `inner`; rows are indexed by the outer dimensions. Adjacent dimensions that
 * all operands walk through alike have been merged. */
typedef struct
{
  guint n_outer;
  gint64 outer[MAX_DIMS];
  gint64 inner, n_rows, n_elements;
  gint64 rows_per_tile; /* 0: a tile lies inside a row */
  gint64 pieces, piece; /* of a row */
  gint64 n_tiles;
} Space;

typedef struct
{
  Access access;
  gboolean full;          /* every element once, in the output's order */
  gboolean same_per_tile; /* expanded once per chunk is enough */
  guint size;             /* of an element */
  guint reg_slot;
  gint64 outer[MAX_DIMS]; /* strides, in elements */
  gint64 inner;
} Input;

/* Inputs that are one element for each row, side by side in a register. */
typedef struct
{
  guint inputs[MAX_BESIDE], n;
  guint slot;
} Rows;

typedef struct
{
  OrtrainTileFunc func;
  guint16 dst, a, b, c; /* slots */
  OrtrainTileParam param;
} Instruction;

struct _OrtrainTileProgram
{
  Space space;
  guint n_inputs, n_outputs, n_registers, n_constants, n_instructions, n_rows;
  gsize register_bytes, thread_bytes;
  gint64 grain;
  Input *inputs;
  guint8 *output_sizes;
  guint64 *constants;
  Instruction *instructions;
  Rows *rows;
};

/* Slots of the table of addresses: inputs, outputs, constants, registers. */

typedef struct
{
  enum
  {
    VALUE_INPUT,
    VALUE_CONSTANT,
    VALUE_COMPUTED,
    VALUE_ROWS,
  } kind;
  OrtrainDType dtype;
  guint index; /* of the input, the constant, the instruction or the rows */
  gint last_use;
  gint output; /* the output that it is, or -1 */
  guint slot;
} Value;

typedef struct
{
  OrtrainTileFunc func;
  guint value, operands[3];
  guint cost;
  OrtrainTileParam param;
} Step;

struct _OrtrainTileBuilder
{
  const OrtrainKernelSetup *setup;
  Space space;
  Input *inputs;
  GArray *values;
  GArray *steps;
  GArray *constants; /* of guint64 */
  GArray *rows;      /* of Rows */
};

/* ---- Shapes ---- */

/* Strides of an operand, in elements. */
static void
operand_strides (const OrtrainOperand *operand, gint64 *strides)
{
  gint64 step = 1;
  for (guint d = operand->rank; d-- > 0;)
    {
      strides[d] = step;
      step *= operand->dims[d];
    }
}

static gboolean
plan_space (OrtrainTileBuilder *self, GError **error)
{
  const OrtrainKernelSetup *setup = self->setup;
  guint present = 0; /* outputs that nobody wants are absent */
  while (present + 1 < setup->n_outputs && setup->outputs[present].dtype == ORTRAIN_DTYPE_UNDEFINED)
    present++;
  const OrtrainOperand *out = &setup->outputs[present];
  Space *space = &self->space;
  guint rank = out->rank, n = 0;
  gint64 dims[MAX_DIMS];
  typedef gint64 Strides[MAX_DIMS];
  g_autofree Strides *strides = g_new0 (Strides, setup->n_inputs + 1);
  guint order[MAX_DIMS];

  if (rank > MAX_DIMS)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "rank %u exceeds %d", rank, MAX_DIMS);
      return FALSE;
    }
  for (guint k = 1; k < setup->n_outputs; k++)
    if (setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED &&
        (setup->outputs[k].rank != rank || memcmp (setup->outputs[k].dims, out->dims, rank * sizeof (gint64)) != 0))
      {
        g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                     "output %u does not have the shape of output 0", k);
        return FALSE;
      }

  /* dimensions of one element do not count */
  for (guint d = 0; d < rank; d++)
    if (out->dims[d] != 1)
      order[n++] = d;
  for (guint i = 0; i < setup->n_inputs; i++)
    {
      const OrtrainOperand *in = &setup->inputs[i];
      gint64 own[MAX_DIMS];
      if (in->dtype == ORTRAIN_DTYPE_UNDEFINED)
        {
          memset (strides[i], 0, sizeof strides[i]);
          continue;
        }
      gboolean fits = in->rank <= rank;
      if (fits)
        operand_strides (in, own);
      for (guint d = 0; fits && d < in->rank; d++)
        fits = in->dims[d] == 1 || in->dims[d] == out->dims[d + rank - in->rank];
      if (!fits)
        {
          g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                       "the shape of input %u cannot be broadcast to that of the output", i);
          return FALSE;
        }
      for (guint k = 0; k < n; k++)
        {
          gint64 d = (gint64) order[k] - (rank - in->rank);
          strides[i][k] = d < 0 || in->dims[d] == 1 ? 0 : own[d];
        }
    }

  /* merge */
  guint m = 0;
  for (guint k = 0; k < n; k++)
    {
      gint64 extent = out->dims[order[k]];
      gboolean merge = m > 0;
      for (guint i = 0; merge && i < setup->n_inputs; i++)
        merge = strides[i][m - 1] == strides[i][k] * extent;
      if (!merge)
        m++;
      dims[m - 1] = merge ? dims[m - 1] * extent : extent;
      for (guint i = 0; i < setup->n_inputs; i++)
        strides[i][m - 1] = strides[i][k];
    }

  space->n_elements = out->n_elements;
  space->inner = m > 0 ? dims[m - 1] : 1;
  space->n_outer = m > 0 ? m - 1 : 0;
  space->n_rows = space->inner > 0 ? space->n_elements / space->inner : 0;
  memcpy (space->outer, dims, space->n_outer * sizeof (gint64));
  if (space->inner < SHORT_ROW && space->n_rows > 1)
    {
      space->rows_per_tile = MAX (1, ORTRAIN_TILE / MAX (1, space->inner));
      space->n_tiles = (space->n_rows + space->rows_per_tile - 1) / space->rows_per_tile;
    }
  else
    {
      space->pieces = MAX (1, (space->inner + ORTRAIN_TILE - 1) / ORTRAIN_TILE);
      space->piece = ((space->inner + space->pieces - 1) / space->pieces + 63) & ~(gint64) 63;
      space->piece = CLAMP (space->piece, 1, ORTRAIN_TILE); /* 0 for an empty row */
      space->pieces = MAX (1, (space->inner + space->piece - 1) / space->piece);
      space->n_tiles = space->n_rows * space->pieces;
    }
  if (space->n_elements == 0)
    space->n_tiles = 0;

  for (guint i = 0; i < setup->n_inputs; i++)
    {
      Input *input = &self->inputs[i];
      gint64 step = space->inner;
      gboolean outer_zero = TRUE;
      input->size = (guint) ortrain_dtype_get_size (setup->inputs[i].dtype);
      input->inner = m > 0 ? strides[i][m - 1] : 0;
      input->full = setup->inputs[i].dtype != ORTRAIN_DTYPE_UNDEFINED && (input->inner == 1 || m == 0);
      for (guint d = space->n_outer; d-- > 0;)
        {
          input->outer[d] = strides[i][d];
          outer_zero = outer_zero && strides[i][d] == 0;
          input->full = input->full && strides[i][d] == step;
          step *= dims[d];
        }
      if (space->n_elements > 0 && m == 0)
        input->access = setup->inputs[i].constant != NULL ? ACCESS_SCALAR : ACCESS_VECTOR; /* one element in all */
      else if (outer_zero && input->inner == 0)
        input->access = ACCESS_SCALAR;
      else if (space->rows_per_tile > 0)
        {
          input->access = input->full ? ACCESS_VECTOR : ACCESS_EXPAND;
          input->same_per_tile = outer_zero;
        }
      else
        input->access = input->inner == 1 ? ACCESS_VECTOR : input->inner == 0 ? ACCESS_SCALAR : ACCESS_EXPAND;
    }
  return TRUE;
}

/* ---- Building ---- */

static guint
add_value (OrtrainTileBuilder *self, guint kind, OrtrainDType dtype, guint index)
{
  Value value = { .kind = kind, .dtype = dtype, .index = index, .last_use = -1, .output = -1 };
  g_array_append_val (self->values, value);
  return self->values->len - 1;
}

OrtrainTileBuilder *
ortrain_tile_builder_new (const OrtrainKernelSetup *setup, GError **error)
{
  OrtrainTileBuilder *self = g_new0 (OrtrainTileBuilder, 1);
  self->setup = setup;
  self->inputs = g_new0 (Input, setup->n_inputs + 1);
  self->values = g_array_new (FALSE, TRUE, sizeof (Value));
  self->steps = g_array_new (FALSE, TRUE, sizeof (Step));
  self->constants = g_array_new (FALSE, TRUE, sizeof (guint64));
  self->rows = g_array_new (FALSE, TRUE, sizeof (Rows));
  if (!plan_space (self, error))
    {
      ortrain_tile_builder_free (self);
      return NULL;
    }
  for (guint i = 0; i < setup->n_inputs; i++)
    add_value (self, VALUE_INPUT, setup->inputs[i].dtype, i);
  return self;
}

void
ortrain_tile_builder_free (OrtrainTileBuilder *self)
{
  g_array_unref (self->values);
  g_array_unref (self->steps);
  g_array_unref (self->constants);
  g_array_unref (self->rows);
  g_free (self->inputs);
  g_free (self);
}

#define VALUE(self, v) (&g_array_index ((self)->values, Value, (v)))
#define STEP(self, s) (&g_array_index ((self)->steps, Step, (s)))

guint
ortrain_tile_builder_input (OrtrainTileBuilder *self, guint index)
{
  return index < self->setup->n_inputs && self->setup->inputs[index].dtype != ORTRAIN_DTYPE_UNDEFINED
             ? index
             : ORTRAIN_TILE_NONE;
}

guint
ortrain_tile_builder_constant (OrtrainTileBuilder *self, OrtrainDType dtype, gconstpointer element)
{
  guint64 bits = 0;
  memcpy (&bits, element, MIN (sizeof bits, ortrain_dtype_get_size (dtype)));
  g_array_append_val (self->constants, bits);
  return add_value (self, VALUE_CONSTANT, dtype, self->constants->len - 1);
}

OrtrainDType
ortrain_tile_builder_get_dtype (const OrtrainTileBuilder *self, guint value)
{
  return VALUE (self, value)->dtype;
}

gboolean
ortrain_tile_builder_is_scalar (const OrtrainTileBuilder *self, guint value)
{
  const Value *v = VALUE (self, value);
  return v->kind == VALUE_CONSTANT || (v->kind == VALUE_INPUT && self->inputs[v->index].access == ACCESS_SCALAR);
}

gconstpointer
ortrain_tile_builder_get_constant (const OrtrainTileBuilder *self, guint value)
{
  const Value *v = VALUE (self, value);
  if (v->kind == VALUE_CONSTANT)
    return &g_array_index (self->constants, guint64, v->index);
  if (v->kind == VALUE_INPUT && self->setup->inputs[v->index].n_elements == 1)
    return self->setup->inputs[v->index].constant;
  return NULL;
}

#define FILL(name, T)                                                                                                  \
  static void name (ORTRAIN_TILE_ARGS)                                                                                 \
  {                                                                                                                    \
    T *d = dst, x = *(const T *) a;                                                                                    \
    ORTRAIN_TILE_FOR d[i] = x;                                                                                         \
  }
FILL (fill_1, guint8)
FILL (fill_2, guint16)
FILL (fill_4, guint32)
FILL (fill_8, guint64)

static OrtrainTileFunc
fill_loop (guint size)
{
  return size == 8 ? fill_8 : size == 4 ? fill_4 : size == 2 ? fill_2 : fill_1;
}

guint
ortrain_tile_builder_spread (OrtrainTileBuilder *self, guint value)
{
  if (!ortrain_tile_builder_is_scalar (self, value))
    return value;
  OrtrainDType dtype = VALUE (self, value)->dtype;
  return ortrain_tile_builder_emit (self, fill_loop ((guint) ortrain_dtype_get_size (dtype)), 1, dtype, value,
                                    ORTRAIN_TILE_NONE, ORTRAIN_TILE_NONE, NULL);
}

guint
ortrain_tile_builder_emit (OrtrainTileBuilder *self, OrtrainTileFunc func, guint cost, OrtrainDType dtype, guint a,
                           guint b, guint c, const OrtrainTileParam *param)
{
  Step step = { .func = func, .operands = { a, b, c }, .cost = cost };
  if (param != NULL)
    step.param = *param;
  step.value = add_value (self, VALUE_COMPUTED, dtype, self->steps->len);
  for (guint i = 0; i < 3; i++)
    if (step.operands[i] != ORTRAIN_TILE_NONE)
      VALUE (self, step.operands[i])->last_use = (gint) self->steps->len;
  g_array_append_val (self->steps, step);
  return step.value;
}

guint
ortrain_tile_builder_rows (OrtrainTileBuilder *self, const guint *values, guint n)
{
  const Space *space = &self->space;
  Rows rows = { .n = n };
  gboolean fits = n <= MAX_BESIDE && space->inner >= LEAST_ROW && space->rows_per_tile * n <= ORTRAIN_TILE;
  for (guint i = 0; i < n && fits; i++)
    {
      const Value *v = VALUE (self, values[i]);
      fits = v->kind == VALUE_INPUT && v->dtype == VALUE (self, values[0])->dtype &&
             self->inputs[v->index].inner == 0 &&
             (self->inputs[v->index].size == 4 || self->inputs[v->index].size == 8);
      rows.inputs[i] = fits ? v->index : 0;
    }
  if (!fits)
    return ORTRAIN_TILE_NONE;
  g_array_append_val (self->rows, rows);
  return add_value (self, VALUE_ROWS, VALUE (self, values[0])->dtype, self->rows->len - 1);
}

void
ortrain_tile_builder_output (OrtrainTileBuilder *self, guint index, guint value)
{
  if (self->setup->outputs[index].dtype == ORTRAIN_DTYPE_UNDEFINED)
    return;
  Value *v = VALUE (self, value);
  if (v->kind != VALUE_COMPUTED || v->output >= 0)
    {
      OrtrainDType dtype = v->dtype;
      guint size = (guint) ortrain_dtype_get_size (dtype);
      /* a copy: its loop is the conversion to the same type */
      OrtrainTileFunc func = ortrain_tile_builder_is_scalar (self, value)
                                 ? fill_loop (size)
                                 : ORTRAIN_CPU_SYMBOL (ortrain_cpu_cast_loop) (dtype, dtype);
      value = ortrain_tile_builder_emit (self, func, 1, dtype, value, ORTRAIN_TILE_NONE, ORTRAIN_TILE_NONE, NULL);
      v = VALUE (self, value);
    }
  v->output = (gint) index;
}

/* ---- Registers and the finished program ---- */

static void
program_free (gpointer data)
{
  OrtrainTileProgram *program = data;
  g_free (program->inputs);
  g_free (program->output_sizes);
  g_free (program->constants);
  g_free (program->instructions);
  g_free (program->rows);
  g_free (program);
}

gboolean
ortrain_tile_builder_finish (OrtrainTileBuilder *self, OrtrainKernelSetup *setup, GError **error)
{
  guint n_inputs = setup->n_inputs, n_outputs = setup->n_outputs;
  guint first_constant = n_inputs + n_outputs, first_register = first_constant + self->constants->len;
  guint n_registers = 0, cost = 0;
  gsize largest = 1;
  g_autoptr (GArray) unused = g_array_new (FALSE, FALSE, sizeof (guint)); /* registers */

  for (guint i = 0; i < n_inputs; i++)
    {
      Value *v = VALUE (self, i);
      v->slot = i;
      if (self->inputs[i].access == ACCESS_EXPAND && v->last_use >= 0)
        {
          /* keeps its register throughout, so that one filling can serve all tiles of a chunk */
          v->slot = first_register + n_registers++;
          cost++;
        }
      self->inputs[i].reg_slot = v->slot;
    }
  for (guint v = n_inputs; v < self->values->len; v++)
    if (VALUE (self, v)->kind == VALUE_CONSTANT)
      VALUE (self, v)->slot = first_constant + VALUE (self, v)->index;
    else if (VALUE (self, v)->kind == VALUE_ROWS)
      VALUE (self, v)->slot = g_array_index (self->rows, Rows, VALUE (self, v)->index).slot =
          first_register + n_registers++;
  for (guint v = 0; v < self->values->len; v++)
    if (VALUE (self, v)->dtype != ORTRAIN_DTYPE_UNDEFINED)
      largest = MAX (largest, ortrain_dtype_get_size (VALUE (self, v)->dtype));

  g_autofree Instruction *instructions = g_new0 (Instruction, self->steps->len + 1);
  for (guint s = 0; s < self->steps->len; s++)
    {
      Step *step = STEP (self, s);
      Value *result = VALUE (self, step->value);
      gsize size = ortrain_dtype_get_size (result->dtype);
      guint released[3], n_released = 0;
      for (guint i = 0; i < 3; i++)
        {
          guint o = step->operands[i];
          if (o == ORTRAIN_TILE_NONE)
            continue;
          Value *v = VALUE (self, o);
          gboolean again = FALSE;
          for (guint j = 0; j < i; j++)
            again = again || step->operands[j] == o;
          if (again || v->kind != VALUE_COMPUTED || v->output >= 0 || v->last_use != (gint) s)
            continue;
          /* the result may take the place of an operand that ends here, if their elements are of one size */
          if (ortrain_dtype_get_size (v->dtype) == size)
            g_array_append_val (unused, v->slot);
          else
            released[n_released++] = v->slot;
        }
      if (result->output >= 0)
        result->slot = n_inputs + (guint) result->output;
      else if (unused->len > 0)
        {
          result->slot = g_array_index (unused, guint, unused->len - 1);
          g_array_set_size (unused, unused->len - 1);
        }
      else
        result->slot = first_register + n_registers++;
      g_array_append_vals (unused, released, n_released);
      if (result->output < 0 && result->last_use < 0)
        g_array_append_val (unused, result->slot);

      Instruction *instruction = &instructions[s];
      instruction->func = step->func;
      instruction->dst = (guint16) result->slot;
      instruction->a = (guint16) (step->operands[0] == ORTRAIN_TILE_NONE ? 0 : VALUE (self, step->operands[0])->slot);
      instruction->b = (guint16) (step->operands[1] == ORTRAIN_TILE_NONE ? 0 : VALUE (self, step->operands[1])->slot);
      instruction->c = (guint16) (step->operands[2] == ORTRAIN_TILE_NONE ? 0 : VALUE (self, step->operands[2])->slot);
      instruction->param = step->param;
      cost += step->cost;
    }
  if (first_register + n_registers > MAX_SLOTS)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "the chain is too long: %u operands, at most %d", first_register + n_registers, MAX_SLOTS);
      return FALSE;
    }

  OrtrainTileProgram *program = g_new0 (OrtrainTileProgram, 1);
  program->space = self->space;
  program->n_inputs = n_inputs;
  program->n_outputs = n_outputs;
  program->n_constants = self->constants->len;
  program->n_registers = n_registers;
  program->n_instructions = self->steps->len;
  program->n_rows = self->rows->len;
  program->rows = g_memdup2 (self->rows->data, self->rows->len * sizeof (Rows));
  /* a few lines more than a tile: registers then do not fall on the same sets of the cache */
  program->register_bytes = ORTRAIN_TILE * largest + 320;
  program->thread_bytes = n_registers * program->register_bytes;
  program->inputs = g_memdup2 (self->inputs, (n_inputs + 1) * sizeof (Input));
  program->constants = g_memdup2 (self->constants->data, self->constants->len * sizeof (guint64));
  program->instructions = g_steal_pointer (&instructions);
  program->output_sizes = g_new0 (guint8, n_outputs + 1);
  for (guint k = 0; k < n_outputs; k++)
    if (setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED)
      program->output_sizes[k] = (guint8) ortrain_dtype_get_size (setup->outputs[k].dtype);

  /* Work is cut by the shape and the program alone. */
  gint64 tile_elements = self->space.rows_per_tile > 0 ? self->space.rows_per_tile * MAX (1, self->space.inner)
                                                       : MAX (1, self->space.piece);
  program->grain = MAX (1, CHUNK_COST / (tile_elements * MAX (1, (gint64) (cost + 1) / 2)));

  setup->constants = program;
  setup->constants_free = program_free;
  setup->workspace_bytes = n_registers > 0 ? ortrain_cpu_get_n_threads (setup) * program->thread_bytes : 0;
  setup->flops = (double) cost * (double) self->space.n_elements;
  /* An output may take the place of an input that no later instruction reads. */
  for (guint s = 0; s < self->steps->len; s++)
    {
      const Value *result = VALUE (self, STEP (self, s)->value);
      if (result->output < 0 || result->output >= ORTRAIN_KERNEL_MAX_OUTPUTS)
        continue;
      for (guint i = 0; i < MIN (n_inputs, 64); i++)
        if (self->inputs[i].full && self->inputs[i].access == ACCESS_VECTOR &&
            setup->inputs[i].n_bytes == setup->outputs[result->output].n_bytes &&
            VALUE (self, i)->last_use <= (gint) s && VALUE (self, i)->last_use >= 0)
          setup->inplace[result->output] |= (guint64) 1 << i;
    }
  return TRUE;
}

/* ---- Running ---- */

typedef struct
{
  const OrtrainTileProgram *program;
  const OrtrainKernelCall *call;
} Run;

static inline gint64
row_offset (const Space *space, const gint64 *strides, gint64 row)
{
  gint64 offset = 0;
  for (guint d = space->n_outer; d-- > 0;)
    {
      gint64 next = d > 0 ? row / space->outer[d] : 0;
      offset += (row - next * space->outer[d]) * strides[d];
      row = next;
    }
  return offset;
}

#define EXPAND(name, T)                                                                                                \
  static void name (T *restrict dst, const T *restrict src, gint64 n, gint64 stride)                                   \
  {                                                                                                                    \
    if (stride == 0)                                                                                                   \
      for (gint64 i = 0; i < n; i++)                                                                                   \
        dst[i] = *src;                                                                                                 \
    else if (stride == 1)                                                                                              \
      for (gint64 i = 0; i < n; i++)                                                                                   \
        dst[i] = src[i];                                                                                               \
    else                                                                                                               \
      for (gint64 i = 0; i < n; i++)                                                                                   \
        dst[i] = src[i * stride];                                                                                      \
  }
EXPAND (expand_1, guint8)
EXPAND (expand_2, guint16)
EXPAND (expand_4, guint32)
EXPAND (expand_8, guint64)

static inline void
expand_row (void *dst, const void *src, gint64 at, guint size, gint64 n, gint64 stride)
{
  switch (size)
    {
    case 8:
      expand_8 (dst, (const guint64 *) src + at, n, stride);
      break;
    case 4:
      expand_4 (dst, (const guint32 *) src + at, n, stride);
      break;
    case 2:
      expand_2 (dst, (const guint16 *) src + at, n, stride);
      break;
    default:
      expand_1 (dst, (const guint8 *) src + at, n, stride);
      break;
    }
}

/* The rows from `row` on, one after another. */
static void
expand_rows (const Space *space, const Input *input, const void *base, void *dst, gint64 row, gint64 n_rows)
{
  gint64 index[MAX_DIMS], offset = 0, rest = row;
  for (guint d = space->n_outer; d-- > 0;)
    {
      gint64 next = d > 0 ? rest / space->outer[d] : 0;
      index[d] = rest - next * space->outer[d];
      offset += index[d] * input->outer[d];
      rest = next;
    }
  guint8 *to = dst;
  gsize row_bytes = (gsize) space->inner * input->size;
  for (gint64 r = 0; r < n_rows; r++, to += row_bytes)
    {
      expand_row (to, base, offset, input->size, space->inner, input->inner);
      for (guint d = space->n_outer; d-- > 0;)
        {
          offset += input->outer[d];
          if (++index[d] < space->outer[d])
            break;
          offset -= input->outer[d] * space->outer[d];
          index[d] = 0;
        }
    }
}

/* One element of each input for each of the rows from `row` on. dst: [n_rows, rows->n] */
static void
gather_rows (const OrtrainTileProgram *program, const Rows *rows, const OrtrainKernelCall *call, void *dst, gint64 row,
             gint64 n_rows)
{
  const Space *space = &program->space;
  for (guint j = 0; j < rows->n; j++)
    {
      const Input *input = &program->inputs[rows->inputs[j]];
      const void *base = call->inputs[rows->inputs[j]];
      const gint64 extent = space->n_outer > 0 ? space->outer[space->n_outer - 1] : 1;
      const gint64 stride = space->n_outer > 0 ? input->outer[space->n_outer - 1] : 0;
      gint64 r = 0, at = 0;
      while (r < n_rows)
        {
          /* along the last of the outer dimensions, from where the row is to its end */
          const gint64 first = (row + r) % extent, n = MIN (n_rows - r, extent - first);
          const gint64 offset = row_offset (space, input->outer, row + r);
          for (gint64 i = 0; i < n; i++, at += rows->n)
            if (input->size == 4)
              ((guint32 *) dst)[at + j] = ((const guint32 *) base)[offset + i * stride];
            else
              ((guint64 *) dst)[at + j] = ((const guint64 *) base)[offset + i * stride];
          r += n;
        }
    }
}

static void
run_tiles (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Run *run = data;
  const OrtrainTileProgram *program = run->program;
  const OrtrainKernelCall *call = run->call;
  const Space *space = &program->space;
  void *slots[MAX_SLOTS];
  OrtrainTileEnv env = { call, 0, 0 };

  void **constants = slots + program->n_inputs + program->n_outputs;
  for (guint i = 0; i < program->n_constants; i++)
    constants[i] = (void *) &program->constants[i];
  guint8 *registers = call->workspace != NULL ? (guint8 *) call->workspace + worker * program->thread_bytes : NULL;
  for (guint r = 0; r < program->n_registers; r++)
    constants[program->n_constants + r] = registers + r * program->register_bytes;
  for (guint i = 0; i < program->n_inputs; i++)
    slots[i] = (void *) call->inputs[i];

  for (gint64 tile = begin; tile < end; tile++)
    {
      gint64 row, start, n_rows;
      gsize n;
      if (space->rows_per_tile > 0)
        {
          row = tile * space->rows_per_tile;
          n_rows = MIN (space->rows_per_tile, space->n_rows - row);
          start = 0;
          n = (gsize) (n_rows * space->inner);
        }
      else
        {
          row = space->n_rows > 1 ? tile / space->pieces : 0;
          start = (tile - row * space->pieces) * space->piece;
          n = (gsize) MIN (space->piece, space->inner - start);
          n_rows = 1;
        }
      gint64 position = row * space->inner + start;
      env.position = position;
      env.row = space->rows_per_tile > 0 ? (gsize) space->inner : n;

      for (guint i = 0; i < program->n_inputs; i++)
        {
          const Input *input = &program->inputs[i];
          const guint8 *base = call->inputs[i];
          if (base == NULL)
            continue;
          if (input->full)
            slots[i] = (void *) (base + position * input->size);
          else if (input->access == ACCESS_EXPAND)
            {
              if (input->reg_slot == i)
                continue; /* nothing reads it */
              if (space->rows_per_tile == 0)
                expand_row (slots[input->reg_slot], base, row_offset (space, input->outer, row) + start * input->inner,
                            input->size, (gint64) n, input->inner);
              else if (tile == begin || !input->same_per_tile)
                expand_rows (space, input, base, slots[input->reg_slot], row, n_rows);
            }
          else if (space->n_outer > 0)
            slots[i] = (void *) (base + (row_offset (space, input->outer, row) + start * input->inner) * input->size);
          else
            slots[i] = (void *) (base + start * input->inner * input->size);
        }
      for (guint k = 0; k < program->n_outputs; k++)
        slots[program->n_inputs + k] =
            call->outputs[k] == NULL ? NULL : (guint8 *) call->outputs[k] + position * program->output_sizes[k];

      for (guint i = 0; i < program->n_rows; i++)
        gather_rows (program, &program->rows[i], call, slots[program->rows[i].slot], row, n_rows);

      for (guint s = 0; s < program->n_instructions; s++)
        {
          const Instruction *in = &program->instructions[s];
          in->func (slots[in->dst], slots[in->a], slots[in->b], slots[in->c], n, &in->param, &env);
        }
    }
}

void
ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_run) (const OrtrainKernelCall *call)
{
  const OrtrainTileProgram *program = call->constants;
  Run run = { program, call };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), program->space.n_tiles, program->grain, run_tiles, &run);
}
