/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

/* Small, quick and the same everywhere; only for benchmarks. */
typedef struct
{
  guint64 state;
} Random;

static guint32
next (Random *random)
{
  random->state = random->state * 6364136223846793005u + 1442695040888963407u;
  return (guint32) (random->state >> 33);
}

static float
next_normal (Random *random)
{
  double u = ((double) next (random) + 1.0) / 2147483649.0, v = (double) next (random) / 2147483648.0;
  return (float) (sqrt (-2.0 * log (u)) * cos (2.0 * G_PI * v));
}

/* ---- integers ---- */

typedef struct
{
  gint64 least, greatest;
} IntegerRange;

static IntegerRange
find_range (OrtrainModel *model, const char *input)
{
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL); /* has the types of computed values */
  OrtrainValue *value = ortrain_graph_find_value (graph != NULL ? graph : ortrain_model_get_file_graph (model), input);
  IntegerRange range = { 1, 1 };
  if (value != NULL)
    ortrain_value_suggest_integers (value, &range.least, &range.greatest);
  return range;
}

/* For a range of one element no random number is drawn. */
static gint64
next_integer (Random *random, IntegerRange range)
{
  return range.greatest > range.least
             ? range.least + (gint64) (next (random) % (guint64) (range.greatest - range.least + 1))
             : range.least;
}

/* Memory that is usually never read: pages of zeros, which take no memory. */
typedef struct
{
  gpointer address;
  gsize n_bytes;
} Zeros;

static void
zeros_free (gpointer data)
{
  Zeros *zeros = data;
  munmap (zeros->address, zeros->n_bytes);
  g_free (zeros);
}

static OrtrainTensor *
make_zeros (OrtrainDType dtype, const gint64 *dims, gsize rank, gsize n_bytes, GError **error)
{
  gpointer address = mmap (NULL, n_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_auto (GValue) owner = G_VALUE_INIT;
  if (address == MAP_FAILED)
    {
      g_autofree char *size = ortrain_format_bytes (n_bytes);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "An input would have %s, which is more than can be addressed; choose smaller sizes", size);
      return NULL;
    }
  Zeros *zeros = g_new (Zeros, 1);
  *zeros = (Zeros){ address, n_bytes };
  g_value_init (&owner, G_TYPE_BYTES);
  g_value_take_boxed (&owner, g_bytes_new_with_free_func (address, n_bytes, zeros_free, zeros));
  return ortrain_tensor_new_for_address (dtype, dims, rank, (gsize) address, FALSE, &owner, error);
}

/* The memory of the host that is free. */
static guint64
get_available_memory (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_autoptr (OrtrainDevice) host = g_list_model_get_item (devices, 0);
  return host != NULL ? ortrain_device_get_available_memory (host) : G_MAXUINT64;
}

static gboolean
refuse_size (guint64 n_bytes, GError **error)
{
  g_autofree char *size = ortrain_format_bytes (n_bytes), *free_size = ortrain_format_bytes (get_available_memory ());
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
               "An input of these sizes needs %s of memory, and %s are available; choose smaller sizes", size,
               free_size);
  return FALSE;
}

/* Feeds that are only planned with are small, or have no contents. */
#define MAX_PLANNED_BYTES (1 << 20)

static OrtrainTensor *
make_tensor (OrtrainDType dtype, const gint64 *dims, gsize rank, IntegerRange range, gboolean plans, Random *random,
             GError **error)
{
  gsize n = 1;
  g_autoptr (OrtrainTensor) tensor = NULL;
  for (gsize i = 0; i < rank; i++)
    if (!g_size_checked_mul (&n, n, (gsize) dims[i]) || n > G_MAXSIZE / 64)
      {
        g_set_error_literal (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                             "The inputs would have more elements than can be addressed; choose smaller sizes");
        return NULL;
      }
  const gsize n_bytes = n * ortrain_dtype_get_size (dtype);
  if (plans && n_bytes > MAX_PLANNED_BYTES)
    return make_zeros (dtype, dims, rank, n_bytes, error);
  /* the numbers, and their copy in the tensor */
  const gsize taken = n * (ortrain_dtype_is_floating (dtype) ? sizeof (float) : sizeof (gint64));
  if (taken + n_bytes > MAX_PLANNED_BYTES && taken + n_bytes > get_available_memory ())
    {
      refuse_size (taken + n_bytes, error);
      return NULL;
    }
  g_autofree gint64 *ints = ortrain_dtype_is_floating (dtype) ? NULL : g_try_new (gint64, n + 1);
  g_autofree float *floats = ortrain_dtype_is_floating (dtype) ? g_try_new (float, n + 1) : NULL;
  if (ints == NULL && floats == NULL)
    {
      refuse_size (taken + n_bytes, error);
      return NULL;
    }
  for (gsize i = 0; ints != NULL && i < n; i++)
    ints[i] = next_integer (random, range);
  for (gsize i = 0; floats != NULL && i < n; i++)
    floats[i] = next_normal (random);
  tensor = ints != NULL ? ortrain_tensor_new_ints (dims, rank, ints, n, error)
                        : ortrain_tensor_new_floats (dims, rank, floats, n, error);
  return tensor == NULL || ortrain_tensor_get_dtype (tensor) == dtype ? g_steal_pointer (&tensor)
                                                                      : ortrain_tensor_cast (tensor, dtype, error);
}

/* ---- sizes ---- */

char **
command_split_shape (OrtrainValue *value)
{
  g_autofree char *text = ortrain_value_get_shape_string (value);
  const gsize length = strlen (text);
  if (ortrain_value_get_rank (value) < 1 || length < 2)
    return NULL;
  text[length - 1] = '\0';
  char **names = g_strsplit (text + 1, ", ", -1);
  if (g_strv_length (names) == (guint) ortrain_value_get_rank (value))
    return names;
  g_strfreev (names);
  return NULL;
}

GHashTable *
command_find_open_dims (GListModel *inputs)
{
  GHashTable *open = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      g_auto (GStrv) names = command_split_shape (value);
      for (guint k = 0; names != NULL && names[k] != NULL; k++)
        {
          if (ortrain_value_get_dim (value, k) >= 0)
            continue;
          const gboolean is_batch = k == 0 || g_str_equal (names[0], names[k]);
          gpointer before;
          if (g_hash_table_lookup_extended (open, names[k], NULL, &before))
            g_hash_table_insert (open, g_strdup (names[k]), GINT_TO_POINTER (is_batch && GPOINTER_TO_INT (before)));
          else
            g_hash_table_insert (open, g_strdup (names[k]), GINT_TO_POINTER (is_batch));
        }
    }
  return open;
}

/* Adds NAME=SIZE to a table of sizes. */
static gboolean
parse_dim (const char *text, GHashTable *open, GHashTable *sizes, GError **error)
{
  const char *equals = strrchr (text, '=');
  guint64 size;
  if (equals == NULL || !g_ascii_string_to_unsigned (equals + 1, 10, 1, G_MAXINT, &size, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--dim takes NAME=SIZE with a size of at least 1, not '%s'", text);
      return FALSE;
    }
  g_autofree char *name = g_strndup (text, (gsize) (equals - text));
  if (!g_hash_table_contains (open, name))
    {
      g_autoptr (GList) names = g_list_sort (g_hash_table_get_keys (open), (GCompareFunc) g_strcmp0);
      GString *list = g_string_new (NULL);
      for (GList *each = names; each != NULL; each = each->next)
        g_string_append_printf (list, "%s'%s'", each == names ? "" : ", ", (const char *) each->data);
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--dim: no input has a symbolic dimension '%s'; %s%s", name,
                   names != NULL ? "they are " : "all dimensions are numbers", list->str);
      g_string_free (list, TRUE);
      return FALSE;
    }
  g_hash_table_insert (sizes, g_steal_pointer (&name), GUINT_TO_POINTER ((guint) size));
  return TRUE;
}

/* Everything that stays the same from one choice of sizes to the next. */
typedef struct
{
  OrtrainTrainingSession *session;
  OrtrainModel *model;
  GListModel *inputs; /* of the file: with the names that it gives to dimensions */
  const char *output, *target;
  GHashTable *open;  /* name → is the batch */
  GHashTable *given; /* name → size, from --dim */
  gboolean plans;    /* of most inputs, only the shapes matter */
} Search;

/* [rank]: numbers stay, for the rest see command_find_open_dims. */
static gsize
fill_dims (const Search *search, OrtrainValue *value, gint64 batch, gint64 seq, gint64 *dims)
{
  g_auto (GStrv) names = command_split_shape (value);
  const gint rank = MIN (ortrain_value_get_rank (value), 16);
  for (gint i = 0; i < rank; i++)
    {
      const char *name = names != NULL ? names[i] : "";
      gpointer is_batch = GINT_TO_POINTER (i == 0), given = g_hash_table_lookup (search->given, name);
      g_hash_table_lookup_extended (search->open, name, NULL, &is_batch);
      dims[i] = ortrain_value_get_dim (value, (guint) i);
      if (dims[i] < 0)
        dims[i] = given != NULL ? (gint64) GPOINTER_TO_UINT (given) : is_batch != NULL ? batch : seq;
    }
  return (gsize) MAX (rank, 0);
}

static OrtrainTensorDict *
make_inputs (const Search *search, gint64 batch, gint64 seq, Random *random, GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  gint64 dims[16];
  for (guint i = 0; i < g_list_model_get_n_items (search->inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (search->inputs, i);
      const char *name = ortrain_value_get_name (value);
      gsize rank = fill_dims (search, value, batch, seq, dims);
      g_autoptr (OrtrainTensor) tensor = make_tensor (ortrain_value_get_dtype (value), dims, rank,
                                                      find_range (search->model, name), search->plans, random, error);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (feeds, name, tensor);
    }
  return g_steal_pointer (&feeds);
}

/* The inputs, and a target for an output of this shape: classes of its last axis where the loss wants integers, else
 * numbers like it. */
static OrtrainTensorDict *
add_target (const Search *search, OrtrainTensorDict *inputs, const gint64 *dims, gsize rank, Random *random,
            GError **error)
{
  OrtrainGraph *graph = ortrain_training_session_get_training_graph (search->session);
  OrtrainValue *target = ortrain_graph_find_value (graph, search->target);
  if (target == NULL)
    return g_object_ref (inputs); /* the output is the loss */
  const OrtrainDType dtype = ortrain_value_get_dtype (target);
  const gboolean classes = !ortrain_dtype_is_floating (dtype);
  if (classes && rank == 0)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE, "The output '%s' has no axis of classes",
                   search->output);
      return NULL;
    }
  const IntegerRange range = { 0, classes ? dims[rank - 1] - 1 : 0 };
  g_autoptr (OrtrainTensor) tensor = make_tensor (dtype, dims, rank - classes, range, search->plans, random, error);
  if (tensor == NULL)
    return NULL;
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (inputs); i++)
    ortrain_tensor_dict_set (feeds, ortrain_tensor_dict_get_name (inputs, i),
                             ortrain_tensor_dict_get_tensor (inputs, i));
  ortrain_tensor_dict_set (feeds, search->target, tensor);
  return feeds;
}

/* The shape of the output where its dimensions are numbers and names of the inputs' dimensions: *known. */
static gsize
fill_output_dims (const Search *search, gint64 batch, gint64 seq, gint64 *dims, gboolean *known)
{
  OrtrainGraph *graph = ortrain_model_get_graph (search->model, NULL);
  OrtrainValue *output =
      ortrain_graph_find_value (graph != NULL ? graph : ortrain_model_get_file_graph (search->model), search->output);
  if (output == NULL)
    {
      *known = FALSE;
      return 0;
    }
  g_auto (GStrv) names = command_split_shape (output);
  *known = names != NULL || ortrain_value_get_rank (output) == 0;
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    *known = *known && (ortrain_value_get_dim (output, i) >= 0 || g_hash_table_contains (search->open, names[i]));
  return fill_dims (search, output, batch, seq, dims);
}

/* The search stays small: a model of images does not get pictures of 16384 × 16384. */
#define MAX_SEARCHED_ELEMENTS (1 << 23)

static gboolean
is_small (const Search *search, gint64 batch, gint64 seq)
{
  gint64 dims[16];
  for (guint i = 0; i < g_list_model_get_n_items (search->inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (search->inputs, i);
      gsize rank = fill_dims (search, value, batch, seq, dims);
      double n = 1;
      for (gsize k = 0; k < rank; k++)
        n *= (double) dims[k];
      if (n > MAX_SEARCHED_ELEMENTS)
        return FALSE;
    }
  return TRUE;
}

static OrtrainTensorDict *
try_sizes (const Search *search, gint64 batch, gint64 seq, OrtrainMemoryPlan **plan, GError **error)
{
  Random random = { 88172645463325252u };
  gint64 dims[16];
  gboolean known;
  g_autoptr (OrtrainTensorDict) inputs = make_inputs (search, batch, seq, &random, error);
  if (inputs == NULL)
    return NULL;
  gsize rank = fill_output_dims (search, batch, seq, dims, &known);
  if (known)
    {
      g_autoptr (GError) local_error = NULL;
      g_autoptr (OrtrainTensorDict) feeds = add_target (search, inputs, dims, rank, &random, NULL);
      *plan = feeds != NULL ? ortrain_training_session_plan (search->session, feeds, &local_error) : NULL;
      if (*plan != NULL)
        return g_steal_pointer (&feeds);
      if (g_error_matches (local_error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return NULL;
        }
    }
  /* A forward pass finds the real shape of the output, or the error in the sizes. */
  if (search->plans && !is_small (search, batch, seq))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "The shape of output '%s' has to be found out by running the model, for which the inputs are too "
                   "large; plan with smaller sizes",
                   search->output);
      return NULL;
    }
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (search->session, inputs, error);
  if (outputs == NULL)
    return NULL;
  OrtrainTensor *found = ortrain_tensor_dict_get (outputs, search->output);
  rank = found != NULL ? MIN (ortrain_tensor_get_rank (found), 16) : rank;
  for (gsize i = 0; found != NULL && i < rank; i++)
    dims[i] = ortrain_tensor_get_dim (found, i);
  g_autoptr (OrtrainTensorDict) feeds = add_target (search, inputs, dims, rank, &random, error);
  *plan = feeds != NULL ? ortrain_training_session_plan (search->session, feeds, error) : NULL;
  return *plan != NULL ? g_steal_pointer (&feeds) : NULL;
}

OrtrainTensorDict *
command_random_feeds (OrtrainTrainingSession *session, const char *output, const char *target, CommandSizes *sizes,
                      OrtrainMemoryPlan **plan, GError **error)
{
  OrtrainModel *model = ortrain_training_session_get_model (session);
  GListModel *inputs = ortrain_graph_get_inputs (ortrain_model_get_file_graph (model));
  g_autoptr (GHashTable) open = command_find_open_dims (inputs);
  g_autoptr (GHashTable) given = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const Search search = { session, model, inputs, output, target, open, given, sizes->plans };
  for (guint i = 0; sizes->dims != NULL && sizes->dims[i] != NULL; i++)
    if (!parse_dim (sizes->dims[i], open, given, error))
      return NULL;

  /* First the defaults; then sizes that strides and windows of models of images and sound divide, or that are long
   * enough for them; then a batch of one; then one size for all, which also makes dimensions of different names equal.
   */
  const gint lengths[] = { 64, 32, 96, 128, 224, 256, 512, 1024, 4096, 16384 };
  const gint batch = sizes->batch > 0 ? sizes->batch : sizes->default_batch;
  const gint first_length = sizes->seq > 0 ? sizes->seq : lengths[0];
  const guint n_lengths = sizes->seq > 0 ? 1 : G_N_ELEMENTS (lengths);
  g_autoptr (GError) first_error = NULL;
  const guint n = g_hash_table_size (open) > g_hash_table_size (given) ? 3 * n_lengths : 1;
  for (guint i = 0; i < n; i++)
    {
      const gint length = i % n_lengths == 0 ? first_length : lengths[i % n_lengths];
      const gint first = i < n_lengths ? batch : i < 2 * n_lengths ? 1 : length;
      g_autoptr (GError) local_error = NULL;
      if (i > 0 && ((i >= n_lengths && (sizes->batch > 0 || first == batch)) || !is_small (&search, first, length)))
        continue;
      OrtrainTensorDict *feeds = try_sizes (&search, first, length, plan, &local_error);
      if (feeds != NULL && i > 0)
        g_printerr ("ortrain: The model does not accept --batch %d --seq %d; using --batch %d --seq %d\n", batch,
                    first_length, first, length);
      if (feeds != NULL)
        {
          sizes->batch = first;
          sizes->seq = length;
          return feeds;
        }
      /* the sizes are accepted, or no others would help */
      if (g_error_matches (local_error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET) ||
          g_error_matches (local_error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return NULL;
        }
      if (first_error == NULL)
        first_error = g_steal_pointer (&local_error);
    }
  g_propagate_error (error, g_steal_pointer (&first_error));
  if (g_hash_table_size (open) > g_hash_table_size (given))
    g_prefix_error (
        error,
        "Found no sizes that the model accepts; set them with --batch, --seq and --dim. With --batch %d --seq %d: ",
        batch, first_length);
  return NULL;
}
