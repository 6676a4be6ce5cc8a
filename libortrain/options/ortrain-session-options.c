/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-session-options-class-private.h"

#include "ortrain-enum-types.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "options/ortrain-option-text-private.h"

/**
 * OrtrainSessionOptions:
 *
 * The settings of an inference session.
 *
 * ```python
 * options = Ortrain.SessionOptions.new()
 * options.threads = 2
 * options.outputs = ["logits"]
 * session = Ortrain.InferenceSession(Ortrain.Model("model.onnx"), options)
 * ```
 *
 * New options take their values from the environment where it has `ORTRAIN_THREADS`, `ORTRAIN_SEED`,
 * `ORTRAIN_DETERMINISTIC`, `ORTRAIN_OPTIMIZE`, `ORTRAIN_PRINT_MEMORY`, `ORTRAIN_MEMORY_PATTERN`,
 * `ORTRAIN_ARENA_CONFIG`, `ORTRAIN_PROVIDER`, `ORTRAIN_DEVICE_INDEX` or `ORTRAIN_MAX_PLANS`;
 * [method@SessionOptions.load_file] reads them from a JSON file. A session reads them when it is created; later changes
 * do not affect it. One thread at a time may use options.
 */

GParamSpec *ortrain_session_options_properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (OrtrainSessionOptions, ortrain_session_options, G_TYPE_OBJECT)

static void
ortrain_session_options_finalize (GObject *object)
{
  OrtrainSessionOptions *self = ORTRAIN_SESSION_OPTIONS (object);

  g_free (self->provider);
  g_free (self->arena_config);
  g_strfreev (self->outputs);

  G_OBJECT_CLASS (ortrain_session_options_parent_class)->finalize (object);
}

static void
ortrain_session_options_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  if (property_id == PROP_OUTPUTS)
    g_value_set_boxed (value, ORTRAIN_SESSION_OPTIONS (object)->outputs);
  else
    ortrain_field_get_property (object, property_id, value, pspec);
}

static void
ortrain_session_options_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  if (property_id == PROP_OUTPUTS)
    ortrain_session_options_set_outputs (ORTRAIN_SESSION_OPTIONS (object), g_value_get_boxed (value));
  else
    ortrain_field_set_property (object, property_id, value, pspec);
}

static void
ortrain_session_options_class_init (OrtrainSessionOptionsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_session_options_finalize;
  object_class->get_property = ortrain_session_options_get_property;
  object_class->set_property = ortrain_session_options_set_property;

  /**
   * OrtrainSessionOptions:threads: (getter get_threads) (setter set_threads)
   *
   * How many threads kernels run on; 0 for one per core that the process may use. Default: 0, from 0 to 1024.
   */
  ortrain_session_options_properties[PROP_THREADS] =
      ortrain_field_uint ("threads", G_STRUCT_OFFSET (OrtrainSessionOptions, threads), 0, 1024, 0);
  /**
   * OrtrainSessionOptions:seed: (getter get_seed) (setter set_seed)
   *
   * The seed of the operators that draw random numbers. Default: 0.
   */
  ortrain_session_options_properties[PROP_SEED] =
      ortrain_field_uint64 ("seed", G_STRUCT_OFFSET (OrtrainSessionOptions, seed), 0, G_MAXUINT64, 0);
  /**
   * OrtrainSessionOptions:deterministic: (getter get_deterministic) (setter set_deterministic)
   *
   * Whether results have the same bits at any number of threads, at a small cost. From run to run they have the same
   * bits in any case. Default: %FALSE.
   */
  ortrain_session_options_properties[PROP_DETERMINISTIC] =
      ortrain_field_boolean ("deterministic", G_STRUCT_OFFSET (OrtrainSessionOptions, deterministic), FALSE);
  /**
   * OrtrainSessionOptions:optimize: (getter get_optimize) (setter set_optimize)
   *
   * Whether passes rewrite the graph: fusion, elimination, and so on. Default: %TRUE.
   */
  ortrain_session_options_properties[PROP_OPTIMIZE] =
      ortrain_field_boolean ("optimize", G_STRUCT_OFFSET (OrtrainSessionOptions, optimize), TRUE);
  /**
   * OrtrainSessionOptions:print-memory: (getter get_print_memory) (setter set_print_memory)
   *
   * Whether the memory line is printed, through the log domain `Ortrain-Memory`, when a plan runs for the first time.
   * Default: %FALSE.
   */
  ortrain_session_options_properties[PROP_PRINT_MEMORY] =
      ortrain_field_boolean ("print-memory", G_STRUCT_OFFSET (OrtrainSessionOptions, print_memory), FALSE);
  /**
   * OrtrainSessionOptions:provider: (getter get_provider) (setter set_provider)
   *
   * The name of the device that the session runs on, one of [func@Device.list]; %NULL or `auto` for the available one
   * with the highest score. Default: %NULL.
   */
  ortrain_session_options_properties[PROP_PROVIDER] =
      ortrain_field_string ("provider", G_STRUCT_OFFSET (OrtrainSessionOptions, provider));
  /**
   * OrtrainSessionOptions:device-index: (getter get_device_index) (setter set_device_index)
   *
   * Which device of the provider the session runs on, where there are several: its number, from 0, the
   * [property@Device:index]. The name of a device, such as `cuda:1`, as the [property@SessionOptions:provider] says the
   * same. A number that no device has is %ORTRAIN_DEVICE_ERROR_UNAVAILABLE. Default: 0, from 0 to 4095.
   *
   * Since: 1.0
   */
  ortrain_session_options_properties[PROP_DEVICE_INDEX] =
      ortrain_field_uint ("device-index", G_STRUCT_OFFSET (OrtrainSessionOptions, device_index), 0, 4095, 0);
  /**
   * OrtrainSessionOptions:max-plans: (getter get_max_plans) (setter set_max_plans)
   *
   * How many memory plans are kept, one for each set of input shapes; the least recently used one is dropped first.
   * Default: 16, from 1 to 4096.
   */
  ortrain_session_options_properties[PROP_MAX_PLANS] =
      ortrain_field_uint ("max-plans", G_STRUCT_OFFSET (OrtrainSessionOptions, max_plans), 1, 4096, 16);
  /**
   * OrtrainSessionOptions:outputs: (getter get_outputs) (setter set_outputs)
   *
   * Which outputs are computed, by name; %NULL for all. Nodes that these do not depend on are left out, and may have
   * unknown operators. Default: %NULL.
   */
  ortrain_session_options_properties[PROP_OUTPUTS] = g_param_spec_boxed (
      "outputs", NULL, NULL, G_TYPE_STRV, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainSessionOptions:precision: (getter get_precision) (setter set_precision)
   *
   * The type in which the model is computed. With %ORTRAIN_PRECISION_BF16 or %ORTRAIN_PRECISION_FP16, operators run in
   * 16 bits where that does no harm, from copies of the weights in that type, and sums, statistics of normalisations
   * and softmax stay in float32. Inputs and outputs are as with float32. Default: %ORTRAIN_PRECISION_F32.
   */
  ortrain_session_options_properties[PROP_PRECISION] = ortrain_field_enum (
      "precision", G_STRUCT_OFFSET (OrtrainSessionOptions, precision), ORTRAIN_TYPE_PRECISION, ORTRAIN_PRECISION_F32);
  /**
   * OrtrainSessionOptions:device-memory-limit: (getter get_device_memory_limit) (setter set_device_memory_limit)
   *
   * How many bytes of the memory of the device the session may allocate; 0 for all there are. An allocation above it
   * fails with %ORTRAIN_DEVICE_ERROR_NO_MEMORY, which says how much was needed and how much is allowed. Default: 0.
   */
  ortrain_session_options_properties[PROP_DEVICE_MEMORY_LIMIT] =
      ortrain_field_bytes ("device-memory-limit", G_STRUCT_OFFSET (OrtrainSessionOptions, device_memory_limit));
  /**
   * OrtrainSessionOptions:memory-budget: (getter get_memory_budget) (setter set_memory_budget)
   *
   * How many bytes a step may hold: the arena with its workspaces and copies, and tensors that live from step to step
   * (#OrtrainMemoryPlan:peak-bytes); 0 for any number. A plan that would be larger is %ORTRAIN_PLAN_ERROR_BUDGET,
   * before anything runs. Default: 0.
   */
  ortrain_session_options_properties[PROP_MEMORY_BUDGET] =
      ortrain_field_bytes ("memory-budget", G_STRUCT_OFFSET (OrtrainSessionOptions, memory_budget));
  /**
   * OrtrainSessionOptions:cudnn-conv-algo-search: (getter get_cudnn_conv_algo_search) (setter set_cudnn_conv_algo_search)
   *
   * How the algorithm of a convolution is chosen where cuDNN computes it; other devices ignore it. An exhaustive search
   * measures, so that another algorithm, with other rounding, may be chosen in another run. Default:
   * %ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC.
   */
  ortrain_session_options_properties[PROP_CUDNN_CONV_ALGO_SEARCH] =
      ortrain_field_enum ("cudnn-conv-algo-search", G_STRUCT_OFFSET (OrtrainSessionOptions, cudnn_conv_algo_search),
                          ORTRAIN_TYPE_CONV_ALGO_SEARCH, ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC);
  /**
   * OrtrainSessionOptions:allow-tf32: (getter get_allow_tf32) (setter set_allow_tf32)
   *
   * Whether products and convolutions of float32 may round their operands to TF32, with 10 bits of mantissa, where the
   * device has fast units for it; other devices ignore it. Default: %FALSE.
   */
  ortrain_session_options_properties[PROP_ALLOW_TF32] =
      ortrain_field_boolean ("allow-tf32", G_STRUCT_OFFSET (OrtrainSessionOptions, allow_tf32), FALSE);
  /**
   * OrtrainSessionOptions:memory-pattern: (getter get_memory_pattern) (setter set_memory_pattern)
   *
   * Whether the values of a step lie in one block of memory, as the plan has packed them, which is taken once. Without
   * it, they are allocated from an [class@Arena], by their lifetimes alone, and given back to it: nothing is packed
   * when other shapes come, which costs less time, and as a rule more memory. It is for sessions whose shapes change
   * all the time. The results are the same bits. Default: %TRUE.
   */
  ortrain_session_options_properties[PROP_MEMORY_PATTERN] =
      ortrain_field_boolean ("memory-pattern", G_STRUCT_OFFSET (OrtrainSessionOptions, memory_pattern), TRUE);
  /**
   * OrtrainSessionOptions:arena-config: (getter get_arena_config) (setter set_arena_config)
   *
   * Options of the [class@Arena] of a session with [property@SessionOptions:memory-pattern] off: `NAME=VALUE`, joined
   * by commas, as in `max_mem=2GiB,arena_extend_strategy=kSameAsRequested`. The names are those of ONNX Runtime, which
   * are the properties of [class@Arena]: `arena_extend_strategy` (`kNextPowerOfTwo` or `kSameAsRequested`), `max_mem`,
   * `initial_chunk_size_bytes`, `initial_growth_chunk_size_bytes`, `max_power_of_two_extend_bytes`,
   * `max_dead_bytes_per_chunk`; sizes may have a unit, and -1 means the default. With `shrink=1`, free memory is given
   * back to the device after each run. A session with an entry that is wrong is refused with
   * %ORTRAIN_SESSION_ERROR_OPTION. Default: %NULL.
   */
  ortrain_session_options_properties[PROP_ARENA_CONFIG] =
      ortrain_field_string ("arena-config", G_STRUCT_OFFSET (OrtrainSessionOptions, arena_config));
  g_object_class_install_properties (object_class, N_PROPERTIES, ortrain_session_options_properties);
}

static void
ortrain_session_options_init (OrtrainSessionOptions *self)
{
  static const OrtrainOptionVariable variables[] = {
    { "ORTRAIN_THREADS", "threads" },
    { "ORTRAIN_SEED", "seed" },
    { "ORTRAIN_DETERMINISTIC", "deterministic" },
    { "ORTRAIN_OPTIMIZE", "optimize" },
    { "ORTRAIN_PRINT_MEMORY", "print-memory" },
    { "ORTRAIN_PROVIDER", "provider" },
    { "ORTRAIN_DEVICE_INDEX", "device-index" },
    { "ORTRAIN_MAX_PLANS", "max-plans" },
    { "ORTRAIN_PRECISION", "precision" },
    { "ORTRAIN_DEVICE_MEMORY_LIMIT", "device-memory-limit" },
    { "ORTRAIN_MEMORY_BUDGET", "memory-budget" },
    { "ORTRAIN_MEMORY_PATTERN", "memory-pattern" },
    { "ORTRAIN_ARENA_CONFIG", "arena-config" },
    { "ORTRAIN_CUDNN_CONV_ALGO_SEARCH", "cudnn-conv-algo-search" },
    { "ORTRAIN_ALLOW_TF32", "allow-tf32" },
  };
  ortrain_field_init_all (self, ortrain_session_options_properties, N_PROPERTIES);
  ortrain_options_read_environment (G_OBJECT (self), variables, G_N_ELEMENTS (variables));
}

/**
 * ortrain_session_options_new:
 *
 * Creates options with the default values, or those of the environment.
 *
 * Returns: (transfer full): new options
 */
OrtrainSessionOptions *
ortrain_session_options_new (void)
{
  return g_object_new (ORTRAIN_TYPE_SESSION_OPTIONS, NULL);
}

/**
 * ortrain_session_options_new_from_file:
 * @path: (type filename): a JSON file
 * @error: return location for a #GError
 *
 * Creates options from a file, see [method@SessionOptions.load_file].
 *
 * Returns: (transfer full): new options; %NULL with an error of [error@SessionError] or [error@GLib.FileError]
 */
OrtrainSessionOptions *
ortrain_session_options_new_from_file (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);

  g_autoptr (OrtrainSessionOptions) self = ortrain_session_options_new ();
  return ortrain_session_options_load_file (self, path, error) ? g_steal_pointer (&self) : NULL;
}

/**
 * ortrain_session_options_load_file:
 * @self: options
 * @path: (type filename): a JSON file
 * @error: return location for a #GError
 *
 * Reads a JSON object whose members have the names of the ortrain_session_options_properties, for instance `{"threads":
 * 2, "deterministic": true}`. If anything in it is wrong, nothing is changed.
 *
 * Returns: %FALSE with %ORTRAIN_SESSION_ERROR_OPTION or an error of [error@GLib.FileError]
 */
gboolean
ortrain_session_options_load_file (OrtrainSessionOptions *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  g_autoptr (JsonNode) root = ortrain_json_read_options (path, error);
  if (root == NULL)
    return FALSE;
  g_autoptr (OrtrainSessionOptions) fresh = ortrain_session_options_new ();
  for (guint pass = 0; pass < 2; pass++)
    {
      JsonObjectIter iter;
      const char *key;
      JsonNode *node;
      json_object_iter_init (&iter, json_node_get_object (root));
      while (json_object_iter_next (&iter, &key, &node))
        {
          GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (self), key);
          GType type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
          g_autofree char *text = json_to_string (node, FALSE);
          g_auto (GStrv) strings =
              pspec != NULL && pspec->value_type == G_TYPE_STRV ? ortrain_json_get_strings (node) : NULL;
          if (strings != NULL)
            {
              g_object_set (pass == 0 ? fresh : self, key, strings, NULL);
              continue;
            }
          if (pspec != NULL && pspec->value_type == G_TYPE_STRING && type == G_TYPE_STRING)
            {
              g_object_set (pass == 0 ? fresh : self, key, json_node_get_string (node), NULL);
              continue;
            }
          const gboolean is_enum = pspec != NULL && G_IS_PARAM_SPEC_ENUM (pspec);
          const gboolean fits = pspec != NULL && type == (is_enum                               ? G_TYPE_STRING
                                                          : pspec->value_type == G_TYPE_BOOLEAN ? G_TYPE_BOOLEAN
                                                                                                : G_TYPE_INT64);
          const char *plain = fits && is_enum ? json_node_get_string (node) : text;
          if (!fits || !ortrain_option_set_from_text (G_OBJECT (pass == 0 ? fresh : self), key, plain, NULL))
            {
              if (pspec == NULL)
                g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "there is no option '%s'",
                             ortrain_text_show (key));
              else
                ortrain_option_refuse (pspec, text, error);
              g_prefix_error (error, "Options file '%s': ", ortrain_text_show_path (path));
              return FALSE;
            }
        }
    }
  return TRUE;
}

/**
 * ortrain_session_options_get_threads: (get-property threads)
 * @self: options
 *
 * Gets how many threads kernels run on; 0 for one per core that the process may use.
 *
 * Returns: number of threads, or 0
 */
guint
ortrain_session_options_get_threads (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->threads;
}

/**
 * ortrain_session_options_set_threads: (set-property threads)
 * @self: options
 * @threads: number of threads, or 0
 *
 * Sets how many threads kernels run on; 0 for one per core that the process may use.
 */
void
ortrain_session_options_set_threads (OrtrainSessionOptions *self, guint threads)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_session_options_properties[PROP_THREADS], threads);
}

/**
 * ortrain_session_options_get_seed: (get-property seed)
 * @self: options
 *
 * Gets the seed of the operators that draw random numbers.
 *
 * Returns: the seed
 */
guint64
ortrain_session_options_get_seed (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->seed;
}

/**
 * ortrain_session_options_set_seed: (set-property seed)
 * @self: options
 * @seed: the seed
 *
 * Sets the seed of the operators that draw random numbers.
 */
void
ortrain_session_options_set_seed (OrtrainSessionOptions *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_uint64 (self, ortrain_session_options_properties[PROP_SEED], seed);
}

/**
 * ortrain_session_options_get_deterministic: (get-property deterministic)
 * @self: options
 *
 * Gets whether results have the same bits at any number of threads, at a small cost.
 *
 * Returns: whether they are
 */
gboolean
ortrain_session_options_get_deterministic (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->deterministic;
}

/**
 * ortrain_session_options_set_deterministic: (set-property deterministic)
 * @self: options
 * @deterministic: whether they are
 *
 * Sets whether results have the same bits at any number of threads, at a small cost.
 */
void
ortrain_session_options_set_deterministic (OrtrainSessionOptions *self, gboolean deterministic)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_session_options_properties[PROP_DETERMINISTIC], deterministic);
}

/**
 * ortrain_session_options_get_optimize: (get-property optimize)
 * @self: options
 *
 * Gets whether passes rewrite the graph: fusion, elimination, and so on.
 *
 * Returns: whether they do
 */
gboolean
ortrain_session_options_get_optimize (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->optimize;
}

/**
 * ortrain_session_options_set_optimize: (set-property optimize)
 * @self: options
 * @optimize: whether they do
 *
 * Sets whether passes rewrite the graph: fusion, elimination, and so on.
 */
void
ortrain_session_options_set_optimize (OrtrainSessionOptions *self, gboolean optimize)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_session_options_properties[PROP_OPTIMIZE], optimize);
}

/**
 * ortrain_session_options_get_print_memory: (get-property print-memory)
 * @self: options
 *
 * Gets whether the memory line is printed, through the log domain `Ortrain-Memory`, when a plan runs for the first
 * time.
 *
 * Returns: whether it is
 */
gboolean
ortrain_session_options_get_print_memory (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->print_memory;
}

/**
 * ortrain_session_options_set_print_memory: (set-property print-memory)
 * @self: options
 * @print_memory: whether it is
 *
 * Sets whether the memory line is printed, through the log domain `Ortrain-Memory`, when a plan runs for the first
 * time.
 */
void
ortrain_session_options_set_print_memory (OrtrainSessionOptions *self, gboolean print_memory)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_session_options_properties[PROP_PRINT_MEMORY], print_memory);
}

/**
 * ortrain_session_options_get_provider: (get-property provider)
 * @self: options
 *
 * Gets the name of the device that the session runs on, one of [func@Device.list]; %NULL or `auto` for the available
 * one with the highest score.
 *
 * Returns: (nullable): the name of the device
 */
const char *
ortrain_session_options_get_provider (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), NULL);

  return self->provider;
}

/**
 * ortrain_session_options_set_provider: (set-property provider)
 * @self: options
 * @provider: (nullable): the name of the device
 *
 * Sets the name of the device that the session runs on, one of [func@Device.list]; %NULL or `auto` for the available
 * one with the highest score.
 */
void
ortrain_session_options_set_provider (OrtrainSessionOptions *self, const char *provider)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_string (self, ortrain_session_options_properties[PROP_PROVIDER], provider);
}

/**
 * ortrain_session_options_get_max_plans: (get-property max-plans)
 * @self: options
 *
 * Gets how many memory plans are kept, one for each set of input shapes; the least recently used one is dropped first.
 *
 * Returns: number of plans
 */
guint
ortrain_session_options_get_max_plans (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->max_plans;
}

/**
 * ortrain_session_options_set_max_plans: (set-property max-plans)
 * @self: options
 * @max_plans: number of plans
 *
 * Sets how many memory plans are kept, one for each set of input shapes; the least recently used one is dropped first.
 */
void
ortrain_session_options_set_max_plans (OrtrainSessionOptions *self, guint max_plans)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_session_options_properties[PROP_MAX_PLANS], max_plans);
}

/**
 * ortrain_session_options_get_precision: (get-property precision)
 * @self: options
 *
 * Gets the type in which the model is computed.
 *
 * Returns: the value
 */
OrtrainPrecision
ortrain_session_options_get_precision (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), ORTRAIN_PRECISION_F32);

  return self->precision;
}

/**
 * ortrain_session_options_set_precision: (set-property precision)
 * @self: options
 * @precision: the new value
 *
 * Sets the type in which the model is computed.
 */
void
ortrain_session_options_set_precision (OrtrainSessionOptions *self, OrtrainPrecision precision)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_session_options_properties[PROP_PRECISION], (gint) precision);
}

/**
 * ortrain_session_options_get_outputs: (get-property outputs)
 * @self: options
 *
 * Gets which outputs are computed, by name; %NULL for all.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): names of outputs; %NULL for all
 */
const char *const *
ortrain_session_options_get_outputs (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), NULL);

  return (const char *const *) self->outputs;
}

/**
 * ortrain_session_options_set_outputs: (set-property outputs)
 * @self: options
 * @outputs: (nullable) (array zero-terminated=1): names of outputs of the model; %NULL for all
 *
 * Sets which outputs are computed, by name; %NULL for all. A name that the model does not have is an error when a
 * session is created.
 */
void
ortrain_session_options_set_outputs (OrtrainSessionOptions *self, const char *const *outputs)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  char **copy = g_strdupv ((char **) outputs);
  g_strfreev (self->outputs);
  self->outputs = copy;
  g_object_notify_by_pspec (G_OBJECT (self), ortrain_session_options_properties[PROP_OUTPUTS]);
}

/**
 * ortrain_session_options_get_cudnn_conv_algo_search: (get-property cudnn-conv-algo-search)
 * @self: options
 *
 * Gets how the algorithm of a convolution is chosen where cuDNN computes it.
 *
 * Returns: the way of choosing
 */
OrtrainConvAlgoSearch
ortrain_session_options_get_cudnn_conv_algo_search (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC);

  return self->cudnn_conv_algo_search;
}

/**
 * ortrain_session_options_set_cudnn_conv_algo_search: (set-property cudnn-conv-algo-search)
 * @self: options
 * @cudnn_conv_algo_search: the way of choosing
 *
 * Sets how the algorithm of a convolution is chosen where cuDNN computes it.
 */
void
ortrain_session_options_set_cudnn_conv_algo_search (OrtrainSessionOptions *self,
                                                    OrtrainConvAlgoSearch cudnn_conv_algo_search)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_session_options_properties[PROP_CUDNN_CONV_ALGO_SEARCH],
                          (gint) cudnn_conv_algo_search);
}

/**
 * ortrain_session_options_get_allow_tf32: (get-property allow-tf32)
 * @self: options
 *
 * Gets whether products and convolutions of float32 may round their operands to TF32.
 *
 * Returns: whether they may
 */
gboolean
ortrain_session_options_get_allow_tf32 (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), FALSE);

  return self->allow_tf32;
}

/**
 * ortrain_session_options_set_allow_tf32: (set-property allow-tf32)
 * @self: options
 * @allow_tf32: whether they may
 *
 * Sets whether products and convolutions of float32 may round their operands to TF32.
 */
void
ortrain_session_options_set_allow_tf32 (OrtrainSessionOptions *self, gboolean allow_tf32)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_session_options_properties[PROP_ALLOW_TF32], allow_tf32);
}

/**
 * ortrain_session_options_get_device_index: (get-property device-index)
 * @self: options
 *
 * Gets which of the provider's devices is used.
 *
 * Returns: its number, 0 for the first
 *
 * Since: 1.0
 */
guint
ortrain_session_options_get_device_index (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->device_index;
}

/**
 * ortrain_session_options_set_device_index: (set-property device-index)
 * @self: options
 * @device_index: its number, 0 for the first
 *
 * Sets which of the provider's devices is used.
 *
 * Since: 1.0
 */
void
ortrain_session_options_set_device_index (OrtrainSessionOptions *self, guint device_index)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_session_options_properties[PROP_DEVICE_INDEX], device_index);
}
