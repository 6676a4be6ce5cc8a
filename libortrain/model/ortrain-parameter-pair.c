/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-object-list-private.h"
#include "model/ortrain-model-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/**
 * OrtrainParameterPair:
 *
 * Two initializers of a model with equal values: probably one parameter that was stored twice.
 * [method@Model.find_equal_parameters] finds them.
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * for pair in Ortrain.Model("model.onnx").find_equal_parameters():
 *     print(pair.first, pair.second, pair.transposed)
 *     options.tie(pair.first, pair.second)
 * ```
 *
 * A pair is immutable, and any thread may use it.
 */
struct _OrtrainParameterPair
{
  GObject parent_instance;

  char *first, *second;
  gboolean transposed;
};

G_DEFINE_FINAL_TYPE (OrtrainParameterPair, ortrain_parameter_pair, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_FIRST,
  PROP_SECOND,
  PROP_TRANSPOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
ortrain_parameter_pair_finalize (GObject *object)
{
  OrtrainParameterPair *self = ORTRAIN_PARAMETER_PAIR (object);

  g_free (self->first);
  g_free (self->second);
  G_OBJECT_CLASS (ortrain_parameter_pair_parent_class)->finalize (object);
}

static void
ortrain_parameter_pair_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainParameterPair *self = ORTRAIN_PARAMETER_PAIR (object);

  switch (id)
    {
    case PROP_FIRST:
      g_value_set_string (value, self->first);
      break;
    case PROP_SECOND:
      g_value_set_string (value, self->second);
      break;
    case PROP_TRANSPOSED:
      g_value_set_boolean (value, self->transposed);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_parameter_pair_class_init (OrtrainParameterPairClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_parameter_pair_finalize;
  object_class->get_property = ortrain_parameter_pair_get_property;

  /**
   * OrtrainParameterPair:first: (getter get_first)
   *
   * The name of the initializer that comes earlier in the file. Read-only.
   */
  properties[PROP_FIRST] = g_param_spec_string ("first", NULL, NULL, NULL, flags);
  /**
   * OrtrainParameterPair:second: (getter get_second)
   *
   * The name of the initializer that comes later in the file. Read-only.
   */
  properties[PROP_SECOND] = g_param_spec_string ("second", NULL, NULL, NULL, flags);
  /**
   * OrtrainParameterPair:transposed: (getter get_transposed)
   *
   * Whether the later initializer has the other one's elements transposed. Read-only.
   */
  properties[PROP_TRANSPOSED] = g_param_spec_boolean ("transposed", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_parameter_pair_init (OrtrainParameterPair *self)
{
}

static void
add_pair (OrtrainObjectList *pairs, const char *first, const char *second, gboolean transposed)
{
  g_autoptr (OrtrainParameterPair) self = g_object_new (ORTRAIN_TYPE_PARAMETER_PAIR, NULL);

  self->first = g_strdup (first);
  self->second = g_strdup (second);
  self->transposed = transposed;
  ortrain_object_list_append (pairs, self);
}

/**
 * ortrain_parameter_pair_get_first: (get-property first)
 * @self: a pair
 *
 * Gets the name of the initializer that comes earlier in the file.
 *
 * Returns: the name
 */
const char *
ortrain_parameter_pair_get_first (OrtrainParameterPair *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_PAIR (self), NULL);
  return self->first;
}

/**
 * ortrain_parameter_pair_get_second: (get-property second)
 * @self: a pair
 *
 * Gets the name of the initializer that comes later in the file.
 *
 * Returns: the name
 */
const char *
ortrain_parameter_pair_get_second (OrtrainParameterPair *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_PAIR (self), NULL);
  return self->second;
}

/**
 * ortrain_parameter_pair_get_transposed: (get-property transposed)
 * @self: a pair
 *
 * Gets whether the later initializer has the other one's elements transposed.
 *
 * Returns: %TRUE if it is
 */
gboolean
ortrain_parameter_pair_get_transposed (OrtrainParameterPair *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_PAIR (self), FALSE);
  return self->transposed;
}

/* ---- Finding them ---- */

#define MIN_ELEMENTS 256
#define N_SAMPLES 64

typedef struct
{
  const OrtrainValue *value;
  guint64 key, transposed_key;
} Candidate;

static guint64
mix (guint64 hash, guint64 bits)
{
  hash = (hash ^ bits) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15);
  return hash ^ hash >> 29;
}

static guint64
element_bits (OrtrainTensor *tensor, gsize index)
{
  const guint8 *data = ortrain_tensor_peek_unaligned (tensor);
  gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (tensor));
  guint64 bits = 0;
  memcpy (&bits, data + index * size, MIN (size, sizeof bits));
  return bits;
}

/* A hash of some elements of a tensor, or of its transpose, at places that depend on the resulting shape alone: equal
 * tensors have equal keys, and of others hardly any byte is read. */
static guint64
sample (OrtrainTensor *tensor, gboolean transpose, gboolean *varies)
{
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  guint64 n = (guint64) ortrain_tensor_get_n_elements (tensor), hash = mix (n, ortrain_tensor_get_dtype (tensor));
  guint64 random = 88172645463325252u, first = 0;

  *varies = FALSE;
  for (gsize i = 0; i < rank; i++)
    hash = mix (hash, (guint64) dims[transpose ? rank - 1 - i : i]);
  for (guint i = 0; i < N_SAMPLES; i++)
    {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      guint64 index = random % n;
      if (transpose) /* element (row, column) of the transpose, which has dims[0] columns */
        index = (index % (guint64) dims[0]) * (guint64) dims[1] + index / (guint64) dims[0];
      guint64 bits = element_bits (tensor, index);
      if (i == 0)
        first = bits;
      *varies = *varies || bits != first;
      hash = mix (hash, bits);
    }
  return hash;
}

typedef guint16 Unaligned16 __attribute__ ((aligned (1), may_alias));
typedef guint32 Unaligned32 __attribute__ ((aligned (1), may_alias));
typedef guint64 Unaligned64 __attribute__ ((aligned (1), may_alias));

#define TRANSPOSE_EQUAL(Type)                                                                                          \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    const Type *x = ortrain_tensor_peek_unaligned (a), *y = ortrain_tensor_peek_unaligned (b);                         \
    for (gint64 r0 = 0; r0 < rows; r0 += 64)                                                                           \
      for (gint64 c0 = 0; c0 < columns; c0 += 64)                                                                      \
        {                                                                                                              \
          Type differ = 0;                                                                                             \
          for (gint64 r = r0; r < MIN (rows, r0 + 64); r++)                                                            \
            for (gint64 c = c0; c < MIN (columns, c0 + 64); c++)                                                       \
              differ |= (Type) (x[r * columns + c] ^ y[c * rows + r]);                                                 \
          if (differ != 0)                                                                                             \
            return FALSE;                                                                                              \
        }                                                                                                              \
    return TRUE;                                                                                                       \
  }                                                                                                                    \
  G_STMT_END

static gboolean
equal_transposed (OrtrainTensor *a, OrtrainTensor *b)
{
  const gint64 rows = ortrain_tensor_get_dim (a, 0), columns = ortrain_tensor_get_dim (a, 1);

  switch (ortrain_dtype_get_size (ortrain_tensor_get_dtype (a)))
    {
    case 2:
      TRANSPOSE_EQUAL (Unaligned16);
    case 4:
      TRANSPOSE_EQUAL (Unaligned32);
    case 8:
      TRANSPOSE_EQUAL (Unaligned64);
    default:
      return FALSE;
    }
}

static gboolean
equal (const Candidate *a, const Candidate *b, gboolean transposed)
{
  OrtrainTensor *x = a->value->tensor, *y = b->value->tensor;
  gsize x_rank, y_rank;
  const gint64 *x_dims = ortrain_tensor_get_dims (x, &x_rank), *y_dims = ortrain_tensor_get_dims (y, &y_rank);

  if (ortrain_tensor_get_dtype (x) != ortrain_tensor_get_dtype (y) || x_rank != y_rank)
    return FALSE;
  for (gsize i = 0; i < x_rank; i++)
    if (x_dims[i] != y_dims[transposed ? x_rank - 1 - i : i])
      return FALSE;
  if (transposed)
    return equal_transposed (x, y);
  return x == y || memcmp (ortrain_tensor_peek_unaligned (x), ortrain_tensor_peek_unaligned (y),
                           ortrain_tensor_get_n_bytes (x)) == 0;
}

GListModel *
ortrain_parameter_pairs_find (OrtrainGraph *graph, gint64 min_elements)
{
  OrtrainObjectList *pairs = ortrain_object_list_new (ORTRAIN_TYPE_PARAMETER_PAIR);
  g_autoptr (GArray) candidates = g_array_new (FALSE, FALSE, sizeof (Candidate));
  g_autoptr (GHashTable) by_key = g_hash_table_new (g_int64_hash, g_int64_equal); /* key → index of the first + 1 */

  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      Candidate candidate = { .value = value };
      gboolean varies;
      if (!ortrain_dtype_is_floating (value->dtype) || ortrain_tensor_get_n_elements (value->tensor) < min_elements)
        continue;
      candidate.key = sample (value->tensor, FALSE, &varies);
      if (!varies)
        continue;
      candidate.transposed_key = candidate.key;
      if (ortrain_tensor_get_rank (value->tensor) == 2)
        candidate.transposed_key = sample (value->tensor, TRUE, &varies);
      g_array_append_val (candidates, candidate);
    }
  for (guint i = 0; i < candidates->len; i++)
    {
      Candidate *candidate = &g_array_index (candidates, Candidate, i);
      guint same = GPOINTER_TO_UINT (g_hash_table_lookup (by_key, &candidate->key));
      guint turned = GPOINTER_TO_UINT (g_hash_table_lookup (by_key, &candidate->transposed_key));
      const Candidate *first = &g_array_index (candidates, Candidate, (same != 0 ? same : MAX (turned, 1)) - 1);
      if (same != 0 && equal (first, candidate, FALSE))
        add_pair (pairs, first->value->name, candidate->value->name, FALSE);
      else if (same == 0 && turned != 0 && ortrain_tensor_get_rank (candidate->value->tensor) == 2 &&
               equal (first, candidate, TRUE))
        add_pair (pairs, first->value->name, candidate->value->name, TRUE);
      else
        g_hash_table_insert (by_key, &candidate->key, GUINT_TO_POINTER (i + 1));
    }
  return G_LIST_MODEL (pairs);
}

/**
 * ortrain_model_find_equal_parameters:
 * @self: a model
 *
 * Finds pairs of initializers with equal values, one perhaps transposed: parameters that a program stored twice, such
 * as a word embedding that is also the weight of the output. They become different in training unless they are tied,
 * see [method@TrainingOptions.tie]. Tensors of few elements, and those whose elements are all equal, are left out.
 *
 * Returns: (transfer full): a list of [class@ParameterPair], in the order of the file
 */
GListModel *
ortrain_model_find_equal_parameters (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  if (self->reader.graph == NULL)
    return G_LIST_MODEL (ortrain_object_list_new (ORTRAIN_TYPE_PARAMETER_PAIR));
  GListModel *pairs = ortrain_parameter_pairs_find (self->reader.graph, MIN_ELEMENTS);
  ortrain_model_trim (self);
  return pairs;
}
