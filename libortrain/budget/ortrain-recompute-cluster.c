/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-report-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"

/**
 * OrtrainRecomputeCluster:
 *
 * Nodes of the same operators, anywhere in the model, that the backward pass can run again instead of keeping their
 * results, and the bytes that are saved with them. [method@TrainingSession.get_recompute_clusters] lists them.
 *
 * ```python
 * for cluster in session.get_recompute_clusters():
 *     print(cluster.configuration, cluster.frequency, cluster.saving_bytes, cluster.saving)
 * options = Ortrain.TrainingOptions(memory_opt_level=1)              # all of them, layer by layer
 * options = Ortrain.TrainingOptions(memory_opt_config="Gelu+:1:2")   # the first two, once a model has them
 * ```
 *
 * The saving is that of the values that are kept otherwise, over all occurrences. It is an upper bound for what the
 * peak of the plan falls by: at the peak, some of it may not be there anyhow.
 *
 * A cluster is immutable, and any thread may use it.
 */
struct _OrtrainRecomputeCluster
{
  GObject parent_instance;

  OrtrainRecomputeRow row;
  guint64 saving_bytes;
};

enum
{
  PROP_0,
  PROP_ID,
  PROP_CONFIGURATION,
  PROP_STRATEGY,
  PROP_FREQUENCY,
  PROP_SAVING,
  PROP_SAVING_BYTES,
  PROP_REQUEST_COUNT,
  PROP_N_RECOMPUTED,
  PROP_ENABLED,
  PROP_AUTOMATIC,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (OrtrainRecomputeCluster, ortrain_recompute_cluster, G_TYPE_OBJECT)

static void
ortrain_recompute_cluster_finalize (GObject *object)
{
  OrtrainRecomputeCluster *self = ORTRAIN_RECOMPUTE_CLUSTER (object);
  g_free (self->row.id);
  g_free (self->row.configuration);
  g_free (self->row.saving);
  g_clear_pointer (&self->row.space, ortrain_dim_space_unref);
  G_OBJECT_CLASS (ortrain_recompute_cluster_parent_class)->finalize (object);
}

static void
ortrain_recompute_cluster_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainRecomputeCluster *self = ORTRAIN_RECOMPUTE_CLUSTER (object);
  switch (property_id)
    {
    case PROP_ID:
      g_value_set_string (value, ortrain_recompute_cluster_get_id (self));
      break;
    case PROP_CONFIGURATION:
      g_value_set_string (value, ortrain_recompute_cluster_get_configuration (self));
      break;
    case PROP_STRATEGY:
      g_value_set_uint (value, self->row.strategy);
      break;
    case PROP_FREQUENCY:
      g_value_set_uint (value, self->row.frequency);
      break;
    case PROP_SAVING:
      g_value_set_string (value, ortrain_recompute_cluster_get_saving (self));
      break;
    case PROP_SAVING_BYTES:
      g_value_set_uint64 (value, self->saving_bytes);
      break;
    case PROP_REQUEST_COUNT:
      g_value_set_int (value, self->row.request_count);
      break;
    case PROP_N_RECOMPUTED:
      g_value_set_uint (value, self->row.n_recomputed);
      break;
    case PROP_ENABLED:
      g_value_set_boolean (value, self->row.enabled);
      break;
    case PROP_AUTOMATIC:
      g_value_set_boolean (value, self->row.automatic);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_recompute_cluster_class_init (OrtrainRecomputeClusterClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_recompute_cluster_finalize;
  object_class->get_property = ortrain_recompute_cluster_get_property;

  /**
   * OrtrainRecomputeCluster:id: (getter get_id)
   *
   * The operators that run again, in topological order, each followed by `+`, such as `Gelu+`. Clusters that share
   * memory are joined by commas. Read-only.
   */
  properties[PROP_ID] = g_param_spec_string ("id", NULL, NULL, "", flags);
  /**
   * OrtrainRecomputeCluster:configuration: (getter get_configuration)
   *
   * What [property@TrainingOptions:memory-opt-config] has to be for all occurrences to be recomputed, such as
   * `Gelu+:1:-1`. Read-only.
   */
  properties[PROP_CONFIGURATION] = g_param_spec_string ("configuration", NULL, NULL, "", flags);
  /**
   * OrtrainRecomputeCluster:strategy: (getter get_strategy)
   *
   * 1: all is computed again. 2: a compromise, the smaller input of a Cast is kept, and the rest is computed again.
   * Read-only.
   */
  properties[PROP_STRATEGY] = g_param_spec_uint ("strategy", NULL, NULL, 0, 2, 0, flags);
  /**
   * OrtrainRecomputeCluster:frequency: (getter get_frequency)
   *
   * How often it occurs in the model. Read-only.
   */
  properties[PROP_FREQUENCY] = g_param_spec_uint ("frequency", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainRecomputeCluster:saving: (getter get_saving)
   *
   * The bytes that all occurrences together save, as an expression over the named dimensions of the model that holds
   * for every size, such as `20480*batch*(seq - 1)`; powers are written `**`. Read-only.
   */
  properties[PROP_SAVING] = g_param_spec_string ("saving", NULL, NULL, "0", flags);
  /**
   * OrtrainRecomputeCluster:saving-bytes: (getter get_saving_bytes)
   *
   * The same in numbers, with the sizes of the session's last plan; 0 where they are not known yet. Read-only.
   */
  properties[PROP_SAVING_BYTES] = g_param_spec_uint64 ("saving-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainRecomputeCluster:request-count: (getter get_request_count)
   *
   * How many occurrences were asked for, by the options or by a level: -1 for all, else the first ones in topological
   * order. Read-only.
   */
  properties[PROP_REQUEST_COUNT] = g_param_spec_int ("request-count", NULL, NULL, -1, G_MAXINT, 0, flags);
  /**
   * OrtrainRecomputeCluster:n-recomputed: (getter get_n_recomputed)
   *
   * How many occurrences are recomputed. Read-only.
   */
  properties[PROP_N_RECOMPUTED] = g_param_spec_uint ("n-recomputed", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainRecomputeCluster:enabled: (getter get_enabled)
   *
   * Whether some occurrences were asked for. Read-only.
   */
  properties[PROP_ENABLED] = g_param_spec_boolean ("enabled", NULL, NULL, FALSE, flags);
  /**
   * OrtrainRecomputeCluster:automatic: (getter get_automatic)
   *
   * Whether the library recomputes all occurrences by itself, since that costs next to nothing; asking for them changes
   * nothing, and [property@RecomputeCluster:saving] is saved already. Read-only.
   */
  properties[PROP_AUTOMATIC] = g_param_spec_boolean ("automatic", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_recompute_cluster_init (OrtrainRecomputeCluster *self)
{
}

/* ---- sizes ---- */

static gboolean
look_up (const char *symbol, gint64 *value, gpointer user_data)
{
  const gint64 *size = g_hash_table_lookup (user_data, symbol);
  if (size != NULL)
    *value = *size;
  return size != NULL;
}

static guint64
evaluate (const OrtrainRecomputeCluster *self, GHashTable *sizes)
{
  gint64 bytes;
  return self->row.space != NULL && ortrain_dim_evaluate (self->row.bytes, look_up, sizes, &bytes) && bytes > 0
             ? (guint64) bytes
             : 0;
}

OrtrainRecomputeCluster *
ortrain_recompute_cluster_new (OrtrainRecomputeRow *row)
{
  OrtrainRecomputeCluster *self = g_object_new (ORTRAIN_TYPE_RECOMPUTE_CLUSTER, NULL);
  g_autoptr (GHashTable) none = ortrain_recompute_sizes_new ();
  self->row = *row;
  self->saving_bytes = evaluate (self, none);
  return self;
}

OrtrainRecomputeCluster *
ortrain_recompute_cluster_new_with_sizes (OrtrainRecomputeCluster *cluster, GHashTable *sizes)
{
  OrtrainRecomputeCluster *self = g_object_new (ORTRAIN_TYPE_RECOMPUTE_CLUSTER, NULL);
  self->row = cluster->row;
  self->row.id = g_strdup (cluster->row.id);
  self->row.configuration = g_strdup (cluster->row.configuration);
  self->row.saving = g_strdup (cluster->row.saving);
  self->row.space = ortrain_dim_space_ref (cluster->row.space);
  self->saving_bytes = evaluate (self, sizes);
  return self;
}

/* ---- getters ---- */

/**
 * ortrain_recompute_cluster_get_id: (get-property id)
 * @self: a cluster
 *
 * Gets the operators that run again, in topological order, each followed by `+`.
 *
 * Returns: (transfer none): the cluster's name in plans
 */
const char *
ortrain_recompute_cluster_get_id (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), NULL);

  return self->row.id != NULL ? self->row.id : "";
}

/**
 * ortrain_recompute_cluster_get_configuration: (get-property configuration)
 * @self: a cluster
 *
 * Gets what [property@TrainingOptions:memory-opt-config] has to be for all occurrences to be recomputed.
 *
 * Returns: (transfer none): plans, joined by commas
 */
const char *
ortrain_recompute_cluster_get_configuration (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), NULL);

  return self->row.configuration != NULL ? self->row.configuration : "";
}

/**
 * ortrain_recompute_cluster_get_strategy: (get-property strategy)
 * @self: a cluster
 *
 * Gets whether all is computed again, or from the smaller input of a Cast that is kept.
 *
 * Returns: 1, or 2 for a compromise
 */
guint
ortrain_recompute_cluster_get_strategy (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), 0);

  return self->row.strategy;
}

/**
 * ortrain_recompute_cluster_get_frequency: (get-property frequency)
 * @self: a cluster
 *
 * Gets how often it occurs in the model.
 *
 * Returns: the number of occurrences
 */
guint
ortrain_recompute_cluster_get_frequency (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), 0);

  return self->row.frequency;
}

/**
 * ortrain_recompute_cluster_get_saving: (get-property saving)
 * @self: a cluster
 *
 * Gets the bytes that all occurrences together save, as an expression over the named dimensions of the model.
 *
 * Returns: (transfer none): an expression
 */
const char *
ortrain_recompute_cluster_get_saving (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), NULL);

  return self->row.saving != NULL ? self->row.saving : "0";
}

/**
 * ortrain_recompute_cluster_get_saving_bytes: (get-property saving-bytes)
 * @self: a cluster
 *
 * Gets the bytes that all occurrences together save, with the sizes of the session's last plan.
 *
 * Returns: bytes, 0 where the sizes are not known yet
 */
guint64
ortrain_recompute_cluster_get_saving_bytes (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), 0);

  return self->saving_bytes;
}

/**
 * ortrain_recompute_cluster_get_request_count: (get-property request-count)
 * @self: a cluster
 *
 * Gets how many occurrences were asked for.
 *
 * Returns: the number, -1 for all
 */
gint
ortrain_recompute_cluster_get_request_count (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), 0);

  return self->row.request_count;
}

/**
 * ortrain_recompute_cluster_get_n_recomputed: (get-property n-recomputed)
 * @self: a cluster
 *
 * Gets how many occurrences are recomputed.
 *
 * Returns: the number
 */
guint
ortrain_recompute_cluster_get_n_recomputed (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), 0);

  return self->row.n_recomputed;
}

/**
 * ortrain_recompute_cluster_get_enabled: (get-property enabled)
 * @self: a cluster
 *
 * Gets whether some occurrences were asked for.
 *
 * Returns: whether they were
 */
gboolean
ortrain_recompute_cluster_get_enabled (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), FALSE);

  return self->row.enabled;
}

/**
 * ortrain_recompute_cluster_get_automatic: (get-property automatic)
 * @self: a cluster
 *
 * Gets whether the library recomputes all occurrences by itself.
 *
 * Returns: whether it does
 */
gboolean
ortrain_recompute_cluster_get_automatic (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), FALSE);

  return self->row.automatic;
}

/**
 * ortrain_recompute_cluster_evaluate:
 * @self: a cluster
 * @sizes: sizes of the named dimensions, such as `batch=8,seq=1024`
 * @bytes: (out): the bytes that are saved with these sizes
 * @error: return location for an error
 *
 * Computes the saving for other sizes. Fails with %ORTRAIN_SESSION_ERROR_OPTION where a size is missing, or is not a
 * whole number.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_recompute_cluster_evaluate (OrtrainRecomputeCluster *self, const char *sizes, guint64 *bytes, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), FALSE);
  g_return_val_if_fail (sizes != NULL && bytes != NULL, FALSE);

  g_autoptr (GHashTable) table = ortrain_recompute_sizes_new ();
  g_auto (GStrv) entries = g_strsplit (sizes, ",", -1);
  gint64 size, sum = 0;
  for (guint i = 0; entries[i] != NULL; i++)
    {
      if (*g_strstrip (entries[i]) == '\0')
        continue;
      char *equals = strrchr (entries[i], '=');
      if (equals == NULL || !g_ascii_string_to_signed (equals + 1, 10, 0, G_MAXINT64, &size, NULL))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                       "'%s' is not the size of a dimension, such as batch=8", ortrain_text_show (entries[i]));
          return FALSE;
        }
      *equals = '\0';
      g_strchomp (entries[i]);
      ortrain_recompute_sizes_set (table, entries[i], size);
    }
  if (self->row.space != NULL && !ortrain_dim_evaluate (self->row.bytes, look_up, table, &sum))
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "'%s' cannot be computed: the size of a dimension is missing, or the sizes are too large",
                   ortrain_text_show (ortrain_recompute_cluster_get_saving (self)));
      return FALSE;
    }
  *bytes = (guint64) MAX (sum, 0);
  return TRUE;
}

/**
 * ortrain_recompute_cluster_to_string:
 * @self: a cluster
 *
 * One line about the cluster.
 *
 * Returns: (transfer full): for instance `Gelu+:1:-1: off, 12 times, 201326592 bytes (16384*batch*seq)`
 */
char *
ortrain_recompute_cluster_to_string (OrtrainRecomputeCluster *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RECOMPUTE_CLUSTER (self), NULL);

  return g_strdup_printf ("%s: %s, %u time%s, %" G_GUINT64_FORMAT " bytes (%s)",
                          ortrain_text_show (ortrain_recompute_cluster_get_configuration (self)),
                          self->row.automatic ? "automatic"
                          : self->row.enabled ? "on"
                                              : "off",
                          self->row.frequency, ortrain_text_plural (self->row.frequency), self->saving_bytes,
                          ortrain_text_show (ortrain_recompute_cluster_get_saving (self)));
}
