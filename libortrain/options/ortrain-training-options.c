/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-training-options-class-private.h"
#include "options/ortrain-training-options-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "options/ortrain-option-text-private.h"
#include "ortrain-enum-types.h"

/**
 * OrtrainTrainingOptions:
 *
 * The settings of a training session: the trained tensors, the losses, and how training runs.
 *
 * ```python
 * optimizer = Ortrain.AdamW(learning_rate=1e-3)
 * options = Ortrain.TrainingOptions(optimizer=optimizer, max_grad_norm=1.0)
 * options.add_loss(Ortrain.CrossEntropyLoss(output="logits", target="labels"))
 * options.set_trainable(["fc.*"])
 * session = Ortrain.TrainingSession(Ortrain.Model("model.onnx"), options)
 * ```
 *
 * New options take their values from the environment where it has `ORTRAIN_ALLOW_TF32`, `ORTRAIN_ARENA_CONFIG`,
 * `ORTRAIN_CUDNN_CONV_ALGO_SEARCH`, `ORTRAIN_DETERMINISTIC`, `ORTRAIN_DEVICE_INDEX`, `ORTRAIN_DEVICE_MEMORY_LIMIT`,
 * `ORTRAIN_IMMEDIATE_UPDATES`, `ORTRAIN_MAX_GRAD_NORM`, `ORTRAIN_MEMORY_BUDGET`, `ORTRAIN_MEMORY_OPT_CONFIG`,
 * `ORTRAIN_MEMORY_OPT_LEVEL`, `ORTRAIN_MEMORY_PATTERN`, `ORTRAIN_OFFLOAD`, `ORTRAIN_OFFLOAD_FOLDER`,
 * `ORTRAIN_PRECISION`, `ORTRAIN_PRINT_MEMORY`, `ORTRAIN_PROVIDER`, `ORTRAIN_SEED`, `ORTRAIN_STOP_GRADIENT` (patterns,
 * with commas between them), `ORTRAIN_STOP_ON_NAN` or `ORTRAIN_THREADS`, and under ONNX Runtime's names
 * `ORTMODULE_MEMORY_OPT_CONFIG` and `ORTMODULE_MEMORY_OPT_LEVEL`; [method@TrainingOptions.load_file] reads them from a
 * JSON file.
 *
 * [property@TrainingOptions:max-grad-norm], [property@TrainingOptions:stop-on-nan] and
 * [property@TrainingOptions:print-memory] may be changed between the steps of a session; the rest is read when a
 * session is created. One thread at a time may use options.
 */

G_DEFINE_FINAL_TYPE (OrtrainTrainingOptions, ortrain_training_options, G_TYPE_OBJECT)

GParamSpec *ortrain_training_options_properties[N_PROPERTIES];

static void
ortrain_training_options_finalize (GObject *object)
{
  OrtrainTrainingOptions *self = ORTRAIN_TRAINING_OPTIONS (object);

  g_free (self->provider);
  g_free (self->memory_opt_config);
  g_free (self->arena_config);
  g_free (self->offload_folder);
  g_clear_object (&self->optimizer);
  g_clear_object (&self->schedule);
  g_clear_object (&self->loss_scaler);
  g_array_unref (self->node_precisions);
  g_clear_object (&self->losses);
  g_strfreev (self->trainable);
  g_strfreev (self->frozen);
  g_strfreev (self->trainable_statistics);
  g_strfreev (self->frozen_statistics);
  g_strfreev (self->stop_gradient);
  g_ptr_array_unref (self->ties);
  g_hash_table_unref (self->padding_rows);

  G_OBJECT_CLASS (ortrain_training_options_parent_class)->finalize (object);
}

static void
ortrain_training_options_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainTrainingOptions *self = ORTRAIN_TRAINING_OPTIONS (object);
  switch (property_id)
    {
    case PROP_LOSSES:
      g_value_set_object (value, self->losses);
      break;
    case PROP_TRAINABLE:
      g_value_set_boxed (value, self->trainable);
      break;
    case PROP_FROZEN:
      g_value_set_boxed (value, self->frozen);
      break;
    case PROP_TRAINABLE_STATISTICS:
      g_value_set_boxed (value, self->trainable_statistics);
      break;
    case PROP_FROZEN_STATISTICS:
      g_value_set_boxed (value, self->frozen_statistics);
      break;
    case PROP_STOP_GRADIENT:
      g_value_set_boxed (value, self->stop_gradient);
      break;
    default:
      ortrain_field_get_property (object, property_id, value, pspec);
    }
}

static void
ortrain_training_options_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainTrainingOptions *self = ORTRAIN_TRAINING_OPTIONS (object);
  switch (property_id)
    {
    case PROP_TRAINABLE:
      ortrain_training_options_set_trainable (self, g_value_get_boxed (value));
      break;
    case PROP_FROZEN:
      ortrain_training_options_set_frozen (self, g_value_get_boxed (value));
      break;
    case PROP_TRAINABLE_STATISTICS:
      ortrain_training_options_set_trainable_statistics (self, g_value_get_boxed (value));
      break;
    case PROP_FROZEN_STATISTICS:
      ortrain_training_options_set_frozen_statistics (self, g_value_get_boxed (value));
      break;
    case PROP_STOP_GRADIENT:
      ortrain_training_options_set_stop_gradient (self, g_value_get_boxed (value));
      break;
    default:
      ortrain_field_set_property (object, property_id, value, pspec);
    }
}

static void
ortrain_training_options_class_init (OrtrainTrainingOptionsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamSpec **const properties = ortrain_training_options_properties;

  object_class->finalize = ortrain_training_options_finalize;
  object_class->get_property = ortrain_training_options_get_property;
  object_class->set_property = ortrain_training_options_set_property;

  /**
   * OrtrainTrainingOptions:optimizer: (getter get_optimizer) (setter set_optimizer)
   *
   * The optimizer that updates the parameters. A session gives options without one an [class@AdamW]. Default: %NULL.
   */
  properties[PROP_OPTIMIZER] =
      ortrain_field_object ("optimizer", G_STRUCT_OFFSET (OrtrainTrainingOptions, optimizer), ORTRAIN_TYPE_OPTIMIZER);

  /**
   * OrtrainTrainingOptions:schedule: (getter get_schedule) (setter set_schedule)
   *
   * The factor on the learning rate as a function of the step; %NULL for 1. Default: %NULL.
   */
  properties[PROP_SCHEDULE] =
      ortrain_field_object ("schedule", G_STRUCT_OFFSET (OrtrainTrainingOptions, schedule), ORTRAIN_TYPE_LR_SCHEDULE);

  /**
   * OrtrainTrainingOptions:max-grad-norm: (getter get_max_grad_norm) (setter set_max_grad_norm)
   *
   * The limit c of the Euclidean norm n of all gradients together. If it is not 0, an update multiplies every gradient
   * by min (1, c / (n + 1e-6)), as PyTorch's `clip_grad_norm_` does. Default: 0, not negative.
   */
  properties[PROP_MAX_GRAD_NORM] = ortrain_field_double (
      "max-grad-norm", G_STRUCT_OFFSET (OrtrainTrainingOptions, max_grad_norm), 0.0, G_MAXDOUBLE, 0.0);

  /**
   * OrtrainTrainingOptions:batch-norm: (getter get_batch_norm) (setter set_batch_norm)
   *
   * Whether batch normalization trains with the statistics of the batch, which update the stored ones, or with the
   * stored ones. In the first case, a layer whose parameters are all frozen still keeps its statistics, and so does a
   * layer without parameters if nothing before it is trained: it is computed as in evaluation, and exported unchanged.
   * [method@TrainingOptions.set_trainable_statistics] and [method@TrainingOptions.set_frozen_statistics] choose layers
   * by name. Default: %ORTRAIN_BATCH_NORM_MODE_TRAIN.
   */
  properties[PROP_BATCH_NORM] = ortrain_field_enum ("batch-norm", G_STRUCT_OFFSET (OrtrainTrainingOptions, batch_norm),
                                                    ORTRAIN_TYPE_BATCH_NORM_MODE, ORTRAIN_BATCH_NORM_MODE_TRAIN);

  /**
   * OrtrainTrainingOptions:accumulation-steps: (getter get_accumulation_steps) (setter set_accumulation_steps)
   *
   * How many training steps a trainer runs for each update. An update uses the mean of the gradients of its steps.
   * Default: 1, at least 1.
   */
  properties[PROP_ACCUMULATION_STEPS] = ortrain_field_uint (
      "accumulation-steps", G_STRUCT_OFFSET (OrtrainTrainingOptions, accumulation_steps), 1, G_MAXUINT, 1);

  /**
   * OrtrainTrainingOptions:threads: (getter get_threads) (setter set_threads)
   *
   * How many threads kernels run on; 0 for one per core that the process may use. Default: 0, from 0 to 1024.
   */
  properties[PROP_THREADS] =
      ortrain_field_uint ("threads", G_STRUCT_OFFSET (OrtrainTrainingOptions, threads), 0, 1024, 0);

  /**
   * OrtrainTrainingOptions:seed: (getter get_seed) (setter set_seed)
   *
   * The seed of all random numbers, including those of dropout. Default: 0.
   */
  properties[PROP_SEED] =
      ortrain_field_uint64 ("seed", G_STRUCT_OFFSET (OrtrainTrainingOptions, seed), 0, G_MAXUINT64, 0);

  /**
   * OrtrainTrainingOptions:deterministic: (getter get_deterministic) (setter set_deterministic)
   *
   * Whether results have the same bits at any number of threads, at a small cost. From run to run they have the same
   * bits in any case. Default: %FALSE.
   */
  properties[PROP_DETERMINISTIC] =
      ortrain_field_boolean ("deterministic", G_STRUCT_OFFSET (OrtrainTrainingOptions, deterministic), FALSE);

  /**
   * OrtrainTrainingOptions:stop-on-nan: (getter get_stop_on_nan) (setter set_stop_on_nan)
   *
   * Whether a loss that is not finite is an error, %ORTRAIN_SESSION_ERROR_NOT_FINITE, which names the value that became
   * so first. The same holds for an update that leaves a parameter that is not finite and, with clipping, for
   * gradients. Default: %TRUE.
   */
  properties[PROP_STOP_ON_NAN] =
      ortrain_field_boolean ("stop-on-nan", G_STRUCT_OFFSET (OrtrainTrainingOptions, stop_on_nan), TRUE);

  /**
   * OrtrainTrainingOptions:print-memory: (getter get_print_memory) (setter set_print_memory)
   *
   * Whether a line about memory is logged, in the log domain `Ortrain-Memory`, at every phase of the steps below 10 and
   * of those that are powers of two. Default: %FALSE.
   */
  properties[PROP_PRINT_MEMORY] =
      ortrain_field_boolean ("print-memory", G_STRUCT_OFFSET (OrtrainTrainingOptions, print_memory), FALSE);
  /**
   * OrtrainTrainingOptions:provider: (getter get_provider) (setter set_provider)
   *
   * The name of the device that the session runs on, one of [func@Device.list]; %NULL or `auto` for the available one
   * with the highest score. Default: %NULL.
   */
  properties[PROP_PROVIDER] = ortrain_field_string ("provider", G_STRUCT_OFFSET (OrtrainTrainingOptions, provider));
  /**
   * OrtrainTrainingOptions:device-index: (getter get_device_index) (setter set_device_index)
   *
   * Which device of the provider the session runs on, where there are several: its number, from 0, the
   * [property@Device:index]. The name of a device, such as `cuda:1`, as the [property@TrainingOptions:provider] says
   * the same. A number that no device has is %ORTRAIN_DEVICE_ERROR_UNAVAILABLE. Default: 0, from 0 to 4095.
   *
   * Since: 1.0
   */
  properties[PROP_DEVICE_INDEX] =
      ortrain_field_uint ("device-index", G_STRUCT_OFFSET (OrtrainTrainingOptions, device_index), 0, 4095, 0);

  /**
   * OrtrainTrainingOptions:immediate-updates: (getter get_immediate_updates) (setter set_immediate_updates)
   *
   * Whether each parameter is updated in [method@TrainingSession.train_step] already, as soon as its gradient is
   * complete. The gradient then needs no memory of its own; with AdamW that is a quarter of the memory of parameters,
   * gradients and state. The parameters are the same, to the bit.
   *
   * [method@TrainingSession.optimizer_step] has to follow each training step: it counts the update and emits the
   * signals. Between the two, no checkpoint can be saved and the gradients can be neither read nor dropped; properties
   * of the optimizer count as they are before the forward pass. A step that fails in the backward pass, as it may when
   * the file of weights that are not trained is changed meanwhile, leaves some parameters moved.
   *
   * Gradients are kept as ever, all of them with clipping ([property@TrainingOptions:max-grad-norm]), several
   * [property@TrainingOptions:accumulation-steps] or an optimizer of your own, and those of parameters with a row of
   * padding; [method@TrainingSession.get_notes] says so. A session with immediate updates refuses to train when
   * `max-grad-norm` is set later.
   *
   * %ORTRAIN_IMMEDIATE_UPDATES_AUTO keeps them too, until [method@Trainer.fit] is called: it switches to immediate
   * updates if they are possible, if the session has only been planned with so far, and if no handler of one of its
   * signals from `post-forward` to `post-update` could read gradients or change the optimizer in the middle of the
   * step. On a device that records its steps, as a GPU, gradients stay kept where they take at most a sixteenth of its
   * memory and there is no [property@TrainingOptions:memory-budget]: all parameters are then updated by few kernels.
   * The notes say why it did not. After it did, [method@TrainingSession.get_gradients] fails. Default:
   * %ORTRAIN_IMMEDIATE_UPDATES_AUTO.
   */
  properties[PROP_IMMEDIATE_UPDATES] =
      ortrain_field_enum ("immediate-updates", G_STRUCT_OFFSET (OrtrainTrainingOptions, immediate_updates),
                          ORTRAIN_TYPE_IMMEDIATE_UPDATES, ORTRAIN_IMMEDIATE_UPDATES_AUTO);

  /**
   * OrtrainTrainingOptions:rank: (getter get_rank) (setter set_rank)
   *
   * The number of this process among those that train together; reports have it, and only rank 0 prints the memory
   * line. Default: 0.
   */
  properties[PROP_RANK] = ortrain_field_uint ("rank", G_STRUCT_OFFSET (OrtrainTrainingOptions, rank), 0, G_MAXINT, 0);

  /**
   * OrtrainTrainingOptions:device-memory-limit: (getter get_device_memory_limit) (setter set_device_memory_limit)
   *
   * How many bytes of the memory of the device the session may allocate; 0 for all there are. An allocation above it
   * fails with %ORTRAIN_DEVICE_ERROR_NO_MEMORY, which says how much was needed and how much is allowed. Default: 0.
   */
  properties[PROP_DEVICE_MEMORY_LIMIT] =
      ortrain_field_bytes ("device-memory-limit", G_STRUCT_OFFSET (OrtrainTrainingOptions, device_memory_limit));
  /**
   * OrtrainTrainingOptions:memory-budget: (getter get_memory_budget) (setter set_memory_budget)
   *
   * How many bytes a step may hold: the arena with its workspaces and copies, and tensors that live from step to step
   * (#OrtrainMemoryPlan:peak-bytes); 0 for any number. Where a plan would be larger, values of the forward pass are
   * computed again in the backward pass instead of kept, as few as possible. The results are the same, bit for bit, at
   * every budget. A budget that cannot be met is %ORTRAIN_PLAN_ERROR_BUDGET, before anything runs. Default: 0.
   */
  properties[PROP_MEMORY_BUDGET] =
      ortrain_field_bytes ("memory-budget", G_STRUCT_OFFSET (OrtrainTrainingOptions, memory_budget));
  /**
   * OrtrainTrainingOptions:memory-pattern: (getter get_memory_pattern) (setter set_memory_pattern)
   *
   * Whether the values of a step lie in one block of memory, as the plan has packed them, which is taken once. Without
   * it, they are allocated from an [class@Arena], by their lifetimes alone, and given back to it: nothing is packed
   * when other shapes come, which costs less time, and as a rule more memory. It is for sessions whose shapes change
   * all the time. The results are the same bits. Default: %TRUE.
   */
  ortrain_training_options_properties[PROP_MEMORY_PATTERN] =
      ortrain_field_boolean ("memory-pattern", G_STRUCT_OFFSET (OrtrainTrainingOptions, memory_pattern), TRUE);
  /**
   * OrtrainTrainingOptions:arena-config: (getter get_arena_config) (setter set_arena_config)
   *
   * Options of the [class@Arena] of a session with [property@TrainingOptions:memory-pattern] off: `NAME=VALUE`, joined
   * by commas, as in `max_mem=2GiB,arena_extend_strategy=kSameAsRequested`. The names are those of ONNX Runtime, which
   * are the properties of [class@Arena]: `arena_extend_strategy` (`kNextPowerOfTwo` or `kSameAsRequested`), `max_mem`,
   * `initial_chunk_size_bytes`, `initial_growth_chunk_size_bytes`, `max_power_of_two_extend_bytes`,
   * `max_dead_bytes_per_chunk`; sizes may have a unit, and -1 means the default. With `shrink=1`, free memory is given
   * back to the device after each update and each evaluation. A session with an entry that is wrong is refused with
   * %ORTRAIN_SESSION_ERROR_OPTION. Default: %NULL.
   */
  ortrain_training_options_properties[PROP_ARENA_CONFIG] =
      ortrain_field_string ("arena-config", G_STRUCT_OFFSET (OrtrainTrainingOptions, arena_config));
  /**
   * OrtrainTrainingOptions:cudnn-conv-algo-search: (getter get_cudnn_conv_algo_search) (setter set_cudnn_conv_algo_search)
   *
   * How the algorithm of a convolution is chosen where cuDNN computes it; other devices ignore it. An exhaustive search
   * measures, so that another algorithm, with other rounding, may be chosen in another run. Default:
   * %ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC.
   */
  properties[PROP_CUDNN_CONV_ALGO_SEARCH] =
      ortrain_field_enum ("cudnn-conv-algo-search", G_STRUCT_OFFSET (OrtrainTrainingOptions, cudnn_conv_algo_search),
                          ORTRAIN_TYPE_CONV_ALGO_SEARCH, ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC);
  /**
   * OrtrainTrainingOptions:allow-tf32: (getter get_allow_tf32) (setter set_allow_tf32)
   *
   * Whether products and convolutions of float32 may round their operands to TF32, with 10 bits of mantissa, where the
   * device has fast units for it; other devices ignore it. Default: %FALSE.
   */
  properties[PROP_ALLOW_TF32] =
      ortrain_field_boolean ("allow-tf32", G_STRUCT_OFFSET (OrtrainTrainingOptions, allow_tf32), FALSE);

  /**
   * OrtrainTrainingOptions:offload: (getter get_offload) (setter set_offload)
   *
   * Whether a [property@TrainingOptions:memory-budget] may be met by values that leave the memory of a step after their
   * last use in the forward pass, and are copied back when the backward pass reads them. On a device with memory of its
   * own they go to pinned memory of the host, while the device computes; on the CPU they go to a file in
   * [property@TrainingOptions:offload-folder]. It is weighed against computing values again: the first plan that fits,
   * by time, is taken. Without a budget nothing is offloaded. The results are the same, to the bit. Default:
   * %ORTRAIN_OFFLOAD_AUTO.
   */
  properties[PROP_OFFLOAD] = ortrain_field_enum ("offload", G_STRUCT_OFFSET (OrtrainTrainingOptions, offload),
                                                 ORTRAIN_TYPE_OFFLOAD, ORTRAIN_OFFLOAD_AUTO);
  /**
   * OrtrainTrainingOptions:offload-folder: (getter get_offload_folder) (setter set_offload_folder)
   *
   * Where the CPU offloads values to: a folder, in which a file without a name is created by the first step that needs
   * it, and deleted with the session. In a file system that is in memory itself, as `/tmp` often is, nothing is saved
   * by it. Default: %NULL, for `/var/tmp`.
   */
  properties[PROP_OFFLOAD_FOLDER] =
      ortrain_field_string ("offload-folder", G_STRUCT_OFFSET (OrtrainTrainingOptions, offload_folder));
  /**
   * OrtrainTrainingOptions:memory-opt-level: (getter get_memory_opt_level) (setter set_memory_opt_level)
   *
   * How much of the forward pass is computed again in the backward pass, so that it need not be kept. The results are
   * the same, to the bit. 0: as [property@TrainingOptions:memory-opt-config] says. 1: layer by layer, the values of a
   * layer, from its inputs. Where layers begin is found by the structure of the model: few bytes go from one to the
   * next. 2: the same, with compromises: values that were widened by a Cast are kept in the smaller type. Levels above
   * 0 ignore `memory-opt-config`. [method@TrainingSession.get_recompute_clusters] shows the result. Default: 0, from 0
   * to 2.
   */
  properties[PROP_MEMORY_OPT_LEVEL] =
      ortrain_field_uint ("memory-opt-level", G_STRUCT_OFFSET (OrtrainTrainingOptions, memory_opt_level), 0, 2, 0);
  /**
   * OrtrainTrainingOptions:memory-opt-config: (getter get_memory_opt_config) (setter set_memory_opt_config)
   *
   * Which clusters of nodes are computed again in the backward pass: plans `<cluster>:<strategy>:<count>`, joined by
   * commas, or the path of a JSON file, an array of strings with such plans. The cluster is a
   * [property@RecomputeCluster:id] of the model. Strategy 0 recomputes nothing, 1 is recompute, 2 recompute with a
   * compromise; the count is -1 for all, or a number for the first ones in topological order. Of two plans with one
   * cluster and strategy, the later one counts. A session with a plan that is wrong, or with a cluster that the model
   * does not have, is refused with %ORTRAIN_SESSION_ERROR_OPTION. Default: %NULL.
   */
  properties[PROP_MEMORY_OPT_CONFIG] =
      ortrain_field_string ("memory-opt-config", G_STRUCT_OFFSET (OrtrainTrainingOptions, memory_opt_config));

  /**
   * OrtrainTrainingOptions:precision: (getter get_precision) (setter set_precision)
   *
   * The type in which the model is computed. With %ORTRAIN_PRECISION_BF16 or %ORTRAIN_PRECISION_FP16, operators run in
   * 16 bits where that does no harm, and sums, statistics of normalisations, softmax and losses stay in float32.
   * Parameters, gradients and the state of the optimizer are float32; operators read copies in 16 bits, which each
   * update writes. Parameters, checkpoints and exported models are as with float32.
   *
   * With %ORTRAIN_PRECISION_FP16 the loss is scaled, see [property@TrainingOptions:loss-scaler]. Which nodes run in 16
   * bits shows [property@TrainingSession:training-graph]; [method@TrainingOptions.set_node_precision] overrules it.
   * Default: %ORTRAIN_PRECISION_F32.
   */
  properties[PROP_PRECISION] = ortrain_field_enum ("precision", G_STRUCT_OFFSET (OrtrainTrainingOptions, precision),
                                                   ORTRAIN_TYPE_PRECISION, ORTRAIN_PRECISION_F32);

  /**
   * OrtrainTrainingOptions:master-weights: (getter get_master_weights) (setter set_master_weights)
   *
   * Whether parameters are kept in float32 where operators read them in 16 bits. Without, parameters in bfloat16 are
   * all there is, and an update rounds them stochastically, up or down with a probability by the distance, so that
   * small updates are not lost: 4 bytes less for each of them, and other numbers. Only with %ORTRAIN_PRECISION_BF16,
   * and with files whose parameters are bfloat16. Default: %TRUE.
   */
  properties[PROP_MASTER_WEIGHTS] =
      ortrain_field_boolean ("master-weights", G_STRUCT_OFFSET (OrtrainTrainingOptions, master_weights), TRUE);

  /**
   * OrtrainTrainingOptions:loss-scaler: (getter get_loss_scaler) (setter set_loss_scaler)
   *
   * How the loss is scaled so that gradients in 16 bits do not vanish. %NULL: with float16, by a dynamic
   * [class@LossScaler] with its defaults; else not at all. Default: %NULL.
   */
  properties[PROP_LOSS_SCALER] = ortrain_field_object (
      "loss-scaler", G_STRUCT_OFFSET (OrtrainTrainingOptions, loss_scaler), ORTRAIN_TYPE_LOSS_SCALER);

  /**
   * OrtrainTrainingOptions:losses: (getter get_losses)
   *
   * The losses that are minimized, a list of [class@Loss]. Read-only: [method@TrainingOptions.add_loss] adds to it.
   */
  properties[PROP_LOSSES] =
      g_param_spec_object ("losses", NULL, NULL, G_TYPE_LIST_MODEL, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  /**
   * OrtrainTrainingOptions:trainable: (getter get_trainable) (setter set_trainable)
   *
   * Which initializers and Constant nodes are trained, by name or glob pattern, see
   * [method@TrainingOptions.set_trainable]; %NULL for all weights. Default: %NULL.
   */
  properties[PROP_TRAINABLE] = g_param_spec_boxed (
      "trainable", NULL, NULL, G_TYPE_STRV, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainingOptions:frozen: (getter get_frozen) (setter set_frozen)
   *
   * Which initializers are not trained, by name or glob pattern; it overrules [property@TrainingOptions:trainable].
   * Default: %NULL.
   */
  properties[PROP_FROZEN] = g_param_spec_boxed ("frozen", NULL, NULL, G_TYPE_STRV,
                                                G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainTrainingOptions:trainable-statistics: (getter get_trainable_statistics) (setter set_trainable_statistics)
   *
   * The layers whose running statistics are trained although they would be kept otherwise, as names or glob patterns,
   * see [method@TrainingOptions.set_trainable_statistics]. Default: %NULL.
   */
  properties[PROP_TRAINABLE_STATISTICS] =
      g_param_spec_boxed ("trainable-statistics", NULL, NULL, G_TYPE_STRV,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainingOptions:frozen-statistics: (getter get_frozen_statistics) (setter set_frozen_statistics)
   *
   * The layers whose running statistics are kept, as names or glob patterns; it overrules
   * [property@TrainingOptions:trainable-statistics]. Default: %NULL.
   */
  properties[PROP_FROZEN_STATISTICS] =
      g_param_spec_boxed ("frozen-statistics", NULL, NULL, G_TYPE_STRV,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainingOptions:stop-gradient: (getter get_stop_gradient) (setter set_stop_gradient)
   *
   * The values through which no gradient flows, as names or glob patterns, see
   * [method@TrainingOptions.set_stop_gradient]. Default: %NULL.
   */
  properties[PROP_STOP_GRADIENT] = g_param_spec_boxed (
      "stop-gradient", NULL, NULL, G_TYPE_STRV, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_training_options_init (OrtrainTrainingOptions *self)
{
  ortrain_field_init_all (self, ortrain_training_options_properties, N_PROPERTIES);
  self->losses = ortrain_object_list_new (ORTRAIN_TYPE_LOSS);
  self->ties = g_ptr_array_new_with_free_func (g_free);
  self->node_precisions = ortrain_node_precisions_new ();
  self->padding_rows = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  static const OrtrainOptionVariable variables[] = {
    { "ORTRAIN_THREADS", "threads" },
    { "ORTRAIN_SEED", "seed" },
    { "ORTRAIN_DETERMINISTIC", "deterministic" },
    { "ORTRAIN_STOP_ON_NAN", "stop-on-nan" },
    { "ORTRAIN_PRINT_MEMORY", "print-memory" },
    { "ORTRAIN_PROVIDER", "provider" },
    { "ORTRAIN_DEVICE_INDEX", "device-index" },
    { "ORTRAIN_MAX_GRAD_NORM", "max-grad-norm" },
    { "ORTRAIN_IMMEDIATE_UPDATES", "immediate-updates" },
    { "ORTRAIN_STOP_GRADIENT", "stop-gradient" },
    { "ORTRAIN_PRECISION", "precision" },
    { "ORTRAIN_DEVICE_MEMORY_LIMIT", "device-memory-limit" },
    { "ORTRAIN_MEMORY_BUDGET", "memory-budget" },
    { "ORTRAIN_MEMORY_PATTERN", "memory-pattern" },
    { "ORTRAIN_ARENA_CONFIG", "arena-config" },
    { "ORTRAIN_CUDNN_CONV_ALGO_SEARCH", "cudnn-conv-algo-search" },
    { "ORTRAIN_ALLOW_TF32", "allow-tf32" },
    { "ORTRAIN_OFFLOAD", "offload" },
    { "ORTRAIN_OFFLOAD_FOLDER", "offload-folder" },
    /* names that users of ONNX Runtime know; the library's own come later, and win */
    { "ORTMODULE_MEMORY_OPT_LEVEL", "memory-opt-level" },
    { "ORTMODULE_MEMORY_OPT_CONFIG", "memory-opt-config" },
    { "ORTRAIN_MEMORY_OPT_LEVEL", "memory-opt-level" },
    { "ORTRAIN_MEMORY_OPT_CONFIG", "memory-opt-config" },
  };
  ortrain_options_read_environment (G_OBJECT (self), variables, G_N_ELEMENTS (variables));
}

/**
 * ortrain_training_options_new:
 *
 * Creates options with the default values, or those of the environment.
 *
 * Returns: (transfer full): the new object
 */
OrtrainTrainingOptions *
ortrain_training_options_new (void)
{
  return g_object_new (ORTRAIN_TYPE_TRAINING_OPTIONS, NULL);
}

/**
 * ortrain_training_options_get_optimizer: (get-property optimizer)
 * @self: the object
 *
 * Gets the optimizer that updates the parameters.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainOptimizer *
ortrain_training_options_get_optimizer (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);
  return self->optimizer;
}

/**
 * ortrain_training_options_set_optimizer: (set-property optimizer)
 * @self: the object
 * @optimizer: (nullable): the new value
 *
 * Sets the optimizer that updates the parameters.
 */
void
ortrain_training_options_set_optimizer (OrtrainTrainingOptions *self, OrtrainOptimizer *optimizer)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_object (self, ortrain_training_options_properties[PROP_OPTIMIZER], optimizer);
}

/**
 * ortrain_training_options_get_schedule: (get-property schedule)
 * @self: the object
 *
 * Gets the factor on the learning rate as a function of the step; %NULL for 1.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainLrSchedule *
ortrain_training_options_get_schedule (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);
  return self->schedule;
}

/**
 * ortrain_training_options_set_schedule: (set-property schedule)
 * @self: the object
 * @schedule: (nullable): the new value
 *
 * Sets the factor on the learning rate as a function of the step; %NULL for 1.
 */
void
ortrain_training_options_set_schedule (OrtrainTrainingOptions *self, OrtrainLrSchedule *schedule)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_object (self, ortrain_training_options_properties[PROP_SCHEDULE], schedule);
}

/**
 * ortrain_training_options_get_max_grad_norm: (get-property max-grad-norm)
 * @self: the object
 *
 * Gets the limit c of the Euclidean norm n of all gradients together.
 *
 * Returns: the value
 */
double
ortrain_training_options_get_max_grad_norm (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);
  return self->max_grad_norm;
}

/**
 * ortrain_training_options_set_max_grad_norm: (set-property max-grad-norm)
 * @self: the object
 * @max_grad_norm: the new value
 *
 * Sets the limit c of the Euclidean norm n of all gradients together.
 */
void
ortrain_training_options_set_max_grad_norm (OrtrainTrainingOptions *self, double max_grad_norm)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_double (self, ortrain_training_options_properties[PROP_MAX_GRAD_NORM], max_grad_norm);
}

/**
 * ortrain_training_options_get_batch_norm: (get-property batch-norm)
 * @self: the object
 *
 * Gets whether batch normalisation trains with the statistics of the batch, or with the stored ones.
 *
 * Returns: the value
 */
OrtrainBatchNormMode
ortrain_training_options_get_batch_norm (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), ORTRAIN_BATCH_NORM_MODE_TRAIN);
  return self->batch_norm;
}

/**
 * ortrain_training_options_set_batch_norm: (set-property batch-norm)
 * @self: the object
 * @batch_norm: the new value
 *
 * Sets whether batch normalisation trains with the statistics of the batch, or with the stored ones.
 */
void
ortrain_training_options_set_batch_norm (OrtrainTrainingOptions *self, OrtrainBatchNormMode batch_norm)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_training_options_properties[PROP_BATCH_NORM], batch_norm);
}

/**
 * ortrain_training_options_get_accumulation_steps: (get-property accumulation-steps)
 * @self: the object
 *
 * Gets how many training steps a trainer runs for each update.
 *
 * Returns: the number of training steps for one update
 */
guint
ortrain_training_options_get_accumulation_steps (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);
  return self->accumulation_steps;
}

/**
 * ortrain_training_options_set_accumulation_steps: (set-property accumulation-steps)
 * @self: the object
 * @accumulation_steps: the new value
 *
 * Sets how many training steps a trainer runs for each update.
 */
void
ortrain_training_options_set_accumulation_steps (OrtrainTrainingOptions *self, guint accumulation_steps)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_training_options_properties[PROP_ACCUMULATION_STEPS], accumulation_steps);
}

/**
 * ortrain_training_options_get_stop_on_nan: (get-property stop-on-nan)
 * @self: the object
 *
 * Gets whether a loss that is not finite is an error, %ORTRAIN_SESSION_ERROR_NOT_FINITE, which names the value that
 * became so first.
 *
 * Returns: the value
 */
gboolean
ortrain_training_options_get_stop_on_nan (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), FALSE);
  return self->stop_on_nan;
}

/**
 * ortrain_training_options_set_stop_on_nan: (set-property stop-on-nan)
 * @self: the object
 * @stop_on_nan: the new value
 *
 * Sets whether a loss that is not finite is an error, %ORTRAIN_SESSION_ERROR_NOT_FINITE, which names the value that
 * became so first.
 */
void
ortrain_training_options_set_stop_on_nan (OrtrainTrainingOptions *self, gboolean stop_on_nan)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_training_options_properties[PROP_STOP_ON_NAN], stop_on_nan);
}

/**
 * ortrain_training_options_get_immediate_updates: (get-property immediate-updates)
 * @self: the object
 *
 * Gets whether each parameter is updated in [method@TrainingSession.train_step] already, as soon as its gradient is
 * complete.
 *
 * Returns: the value
 */
OrtrainImmediateUpdates
ortrain_training_options_get_immediate_updates (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), ORTRAIN_IMMEDIATE_UPDATES_AUTO);
  return self->immediate_updates;
}

/**
 * ortrain_training_options_set_immediate_updates: (set-property immediate-updates)
 * @self: the object
 * @immediate_updates: the new value
 *
 * Sets whether each parameter is updated in [method@TrainingSession.train_step] already, as soon as its gradient is
 * complete. A session reads it when it is created, and [method@Trainer.fit] when it begins.
 */
void
ortrain_training_options_set_immediate_updates (OrtrainTrainingOptions *self, OrtrainImmediateUpdates immediate_updates)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_training_options_properties[PROP_IMMEDIATE_UPDATES], (gint) immediate_updates);
}

/**
 * ortrain_training_options_add_loss:
 * @self: options
 * @loss: a loss
 *
 * Adds a loss. The sum of all losses, each times its weight, is minimized.
 */
void
ortrain_training_options_add_loss (OrtrainTrainingOptions *self, OrtrainLoss *loss)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));
  g_return_if_fail (ORTRAIN_IS_LOSS (loss));

  ortrain_object_list_append (self->losses, loss);
}

/**
 * ortrain_training_options_get_losses: (get-property losses)
 * @self: options
 *
 * Gets the losses that are minimized, a list of [class@Loss].
 *
 * Returns: (transfer none): a list of [class@Loss]
 */
GListModel *
ortrain_training_options_get_losses (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return G_LIST_MODEL (self->losses);
}
