/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-training-options.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "grad/ortrain-bce-with-logits-loss.h"
#include "grad/ortrain-cross-entropy-loss.h"
#include "grad/ortrain-huber-loss.h"
#include "grad/ortrain-l1-loss.h"
#include "grad/ortrain-mse-loss.h"
#include "grad/ortrain-nll-loss.h"
#include "grad/ortrain-output-loss.h"
#include "optim/ortrain-adagrad.h"
#include "optim/ortrain-adam.h"
#include "optim/ortrain-adamw.h"
#include "optim/ortrain-constant-schedule.h"
#include "optim/ortrain-cosine-schedule.h"
#include "optim/ortrain-epoch-schedule.h"
#include "optim/ortrain-lamb.h"
#include "optim/ortrain-linear-schedule.h"
#include "optim/ortrain-loss-scaler.h"
#include "optim/ortrain-one-cycle-schedule.h"
#include "optim/ortrain-plateau-schedule.h"
#include "optim/ortrain-polynomial-schedule.h"
#include "optim/ortrain-sgd.h"
#include "optim/ortrain-step-schedule.h"
#include "optim/ortrain-warm-up-schedule.h"
#include "options/ortrain-option-text-private.h"

/* Options as JSON. Keys are property names; values are checked against the properties' own types and ranges, so that a
 * new property needs nothing here. */

static GType
lookup (const char *kind, const char *name, GString *known)
{
  const struct
  {
    const char *kind, *name;
    GType type;
  } table[] = {
    { "optimizer", "sgd", ORTRAIN_TYPE_SGD },
    { "optimizer", "adam", ORTRAIN_TYPE_ADAM },
    { "optimizer", "adamw", ORTRAIN_TYPE_ADAMW },
    { "optimizer", "lamb", ORTRAIN_TYPE_LAMB },
    { "optimizer", "adagrad", ORTRAIN_TYPE_ADAGRAD },
    { "schedule", "constant", ORTRAIN_TYPE_CONSTANT_SCHEDULE },
    { "schedule", "linear", ORTRAIN_TYPE_LINEAR_SCHEDULE },
    { "schedule", "cosine", ORTRAIN_TYPE_COSINE_SCHEDULE },
    { "schedule", "polynomial", ORTRAIN_TYPE_POLYNOMIAL_SCHEDULE },
    { "schedule", "step", ORTRAIN_TYPE_STEP_SCHEDULE },
    { "schedule", "one-cycle", ORTRAIN_TYPE_ONE_CYCLE_SCHEDULE },
    { "schedule", "plateau", ORTRAIN_TYPE_PLATEAU_SCHEDULE },
    { "schedule", "epoch", ORTRAIN_TYPE_EPOCH_SCHEDULE },
    { "schedule", "warm-up", ORTRAIN_TYPE_WARM_UP_SCHEDULE },
    { "loss", "cross-entropy", ORTRAIN_TYPE_CROSS_ENTROPY_LOSS },
    { "loss", "mse", ORTRAIN_TYPE_MSE_LOSS },
    { "loss", "l1", ORTRAIN_TYPE_L1_LOSS },
    { "loss", "huber", ORTRAIN_TYPE_HUBER_LOSS },
    { "loss", "bce-with-logits", ORTRAIN_TYPE_BCE_WITH_LOGITS_LOSS },
    { "loss", "nll", ORTRAIN_TYPE_NLL_LOSS },
    { "loss", "output", ORTRAIN_TYPE_OUTPUT_LOSS },
  };
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i].kind, kind))
      {
        if (g_str_equal (table[i].name, name))
          return table[i].type;
        if (known != NULL)
          g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", table[i].name);
      }
  return G_TYPE_INVALID;
}

static GObject *object_from_json (const char *kind, JsonNode *node, GError **error);
static GObject *loss_scaler_from_json (GParamSpec *pspec, JsonNode *node, GError **error);

static gboolean
wrong_value (GParamSpec *pspec, JsonNode *node, GError **error)
{
  g_autofree char *text = json_to_string (node, FALSE);
  ortrain_option_refuse (pspec, text, error);
  return FALSE;
}

static gboolean
set_from_json (GObject *object, const char *key, JsonNode *node, GError **error)
{
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (object), key);
  if (pspec == NULL || !(pspec->flags & G_PARAM_WRITABLE))
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "%s has no option '%s'",
                   ortrain_text_name_class (object), ortrain_text_show (key));
      return FALSE;
    }
  g_auto (GValue) value = G_VALUE_INIT;
  g_value_init (&value, pspec->value_type);
  if (g_type_is_a (pspec->value_type, ORTRAIN_TYPE_OPTIMIZER) ||
      g_type_is_a (pspec->value_type, ORTRAIN_TYPE_LR_SCHEDULE))
    {
      const char *kind = g_type_is_a (pspec->value_type, ORTRAIN_TYPE_OPTIMIZER) ? "optimizer" : "schedule";
      GObject *child = object_from_json (kind, node, error);
      if (child == NULL)
        return FALSE;
      g_value_take_object (&value, child);
      return ortrain_option_set_checked (object, pspec, &value, error);
    }
  if (pspec->value_type == ORTRAIN_TYPE_LOSS_SCALER)
    {
      GObject *child = loss_scaler_from_json (pspec, node, error);
      if (child == NULL)
        return FALSE;
      g_value_take_object (&value, child);
      return ortrain_option_set_checked (object, pspec, &value, error);
    }
  if (pspec->value_type == ORTRAIN_TYPE_TENSOR)
    {
      /* class weights: an array of numbers */
      if (!JSON_NODE_HOLDS_ARRAY (node))
        return wrong_value (pspec, node, error);
      JsonArray *array = json_node_get_array (node);
      gint64 n = json_array_get_length (array);
      g_autofree float *numbers = g_new0 (float, MAX (n, 1));
      for (gint64 i = 0; i < n; i++)
        {
          JsonNode *element = json_array_get_element (array, (guint) i);
          if (!JSON_NODE_HOLDS_VALUE (element) || (json_node_get_value_type (element) != G_TYPE_DOUBLE &&
                                                   json_node_get_value_type (element) != G_TYPE_INT64))
            return wrong_value (pspec, node, error);
          numbers[i] = (float) json_node_get_double (element);
        }
      OrtrainTensor *tensor = ortrain_tensor_new_floats (&n, 1, numbers, (gsize) n, error);
      if (tensor == NULL)
        return FALSE;
      g_value_take_object (&value, tensor);
      return ortrain_option_set_checked (object, pspec, &value, error);
    }
  if (!JSON_NODE_HOLDS_VALUE (node))
    return wrong_value (pspec, node, error);
  GType type = json_node_get_value_type (node);
  if (pspec->value_type == G_TYPE_STRING ? type != G_TYPE_STRING
                                         : type == G_TYPE_STRING && !G_IS_PARAM_SPEC_ENUM (pspec))
    return wrong_value (pspec, node, error);
  if (pspec->value_type == G_TYPE_DOUBLE && type != G_TYPE_BOOLEAN)
    g_value_set_double (&value, json_node_get_double (node));
  else if (pspec->value_type == G_TYPE_BOOLEAN && type == G_TYPE_BOOLEAN)
    g_value_set_boolean (&value, json_node_get_boolean (node));
  else if (pspec->value_type == G_TYPE_STRING)
    g_value_set_string (&value, json_node_get_string (node));
  else if (G_IS_PARAM_SPEC_ENUM (pspec) && (type == G_TYPE_STRING || type == G_TYPE_BOOLEAN))
    {
      const char *text = type == G_TYPE_STRING          ? json_node_get_string (node)
                         : json_node_get_boolean (node) ? "on"
                                                        : "off";
      if (!ortrain_option_enum_from_text (pspec, text, &value))
        return wrong_value (pspec, node, error);
    }
  else if (type == G_TYPE_INT64)
    {
      gint64 integer = json_node_get_int (node);
      g_auto (GValue) from = G_VALUE_INIT;
      g_value_init (&from, G_TYPE_INT64);
      g_value_set_int64 (&from, integer);
      if ((integer < 0 && (pspec->value_type == G_TYPE_UINT || pspec->value_type == G_TYPE_UINT64)) ||
          (integer > G_MAXUINT && pspec->value_type == G_TYPE_UINT) ||
          ((integer > G_MAXINT || integer < G_MININT) && pspec->value_type == G_TYPE_INT) ||
          pspec->value_type == G_TYPE_BOOLEAN || !g_value_transform (&from, &value))
        return wrong_value (pspec, node, error);
    }
  else
    return wrong_value (pspec, node, error);
  return ortrain_option_set_checked (object, pspec, &value, error);
}

/* An object of properties, or the number that a static scale is. */
static GObject *
loss_scaler_from_json (GParamSpec *pspec, JsonNode *node, GError **error)
{
  g_autoptr (GObject) scaler = g_object_new (ORTRAIN_TYPE_LOSS_SCALER, NULL);
  if (JSON_NODE_HOLDS_OBJECT (node))
    {
      JsonObjectIter iter;
      const char *key;
      JsonNode *member;
      json_object_iter_init (&iter, json_node_get_object (node));
      while (json_object_iter_next (&iter, &key, &member))
        if (!set_from_json (scaler, key, member, error))
          return NULL;
    }
  else if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) != G_TYPE_STRING &&
           json_node_get_value_type (node) != G_TYPE_BOOLEAN)
    {
      ortrain_loss_scaler_set_dynamic (ORTRAIN_LOSS_SCALER (scaler), FALSE);
      if (!set_from_json (scaler, "initial-scale", node, error))
        return NULL;
    }
  else
    {
      wrong_value (pspec, node, error);
      return NULL;
    }
  return g_steal_pointer (&scaler);
}

static gboolean
add_groups (OrtrainOptimizer *optimizer, JsonNode *node, GError **error)
{
  JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      JsonObject *object = JSON_NODE_HOLDS_OBJECT (element) ? json_node_get_object (element) : NULL;
      const char *pattern =
          object != NULL ? ortrain_json_get_string (json_object_get_member (object, "pattern")) : NULL;
      if (pattern == NULL)
        {
          array = NULL;
          break;
        }
      OrtrainParameterGroup *group = ortrain_optimizer_add_group (optimizer, pattern, 1.0, -1.0);
      JsonObjectIter iter;
      const char *key;
      JsonNode *member;
      json_object_iter_init (&iter, object);
      while (json_object_iter_next (&iter, &key, &member))
        if (!g_str_equal (key, "pattern") && !set_from_json (G_OBJECT (group), key, member, error))
          return FALSE;
    }
  if (array == NULL)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                 "Option 'groups' must be an array of objects with a 'pattern', which is a text");
  return array != NULL;
}

static GObject *
object_from_json (const char *kind, JsonNode *node, GError **error)
{
  const char *name = NULL;
  JsonObject *json = NULL;
  if (JSON_NODE_HOLDS_OBJECT (node))
    {
      json = json_node_get_object (node);
      name = ortrain_json_get_string (json_object_get_member (json, "type"));
    }
  else
    name = ortrain_json_get_string (node);
  if (name == NULL)
    {
      g_autofree char *text = json_to_string (node, FALSE);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "Option '%s' is an object with a 'type', which is a text, or that text, not %s", kind,
                   ortrain_text_show (text));
      return NULL;
    }
  g_autoptr (GString) known = g_string_new (NULL);
  GType type = lookup (kind, name, known);
  if (type == G_TYPE_INVALID)
    {
      lookup (kind, "", g_string_truncate (known, 0));
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "There is no %s of type '%s'; the types are %s", ortrain_text_show (kind), ortrain_text_show (name),
                   known->str);
      return NULL;
    }
  g_autoptr (GObject) object = g_object_new (type, NULL);
  if (json != NULL)
    {
      JsonObjectIter iter;
      const char *key;
      JsonNode *member;
      json_object_iter_init (&iter, json);
      while (json_object_iter_next (&iter, &key, &member))
        {
          if (g_str_equal (key, "type"))
            continue;
          if (ORTRAIN_IS_OPTIMIZER (object) && g_str_equal (key, "groups"))
            {
              if (!add_groups (ORTRAIN_OPTIMIZER (object), member, error))
                return NULL;
            }
          else if (!set_from_json (object, key, member, error))
            return NULL;
        }
    }
  return g_steal_pointer (&object);
}

/* An object of patterns and precisions. */
static gboolean
load_node_precisions (OrtrainTrainingOptions *into, const char *key, JsonNode *node, GError **error)
{
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (into), "precision");
  gboolean ok = JSON_NODE_HOLDS_OBJECT (node);
  JsonObjectIter iter;
  const char *pattern;
  JsonNode *member;
  if (ok)
    json_object_iter_init (&iter, json_node_get_object (node));
  while (ok && json_object_iter_next (&iter, &pattern, &member))
    {
      g_auto (GValue) value = G_VALUE_INIT;
      g_value_init (&value, pspec->value_type);
      ok = JSON_NODE_HOLDS_VALUE (member) && json_node_get_value_type (member) == G_TYPE_STRING &&
           ortrain_option_enum_from_text (pspec, json_node_get_string (member), &value);
      if (ok)
        ortrain_training_options_set_node_precision (into, pattern, (OrtrainPrecision) g_value_get_enum (&value));
    }
  if (!ok)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                 "Option '%s' must be an object of patterns and precisions (f32, bf16, fp16)", ortrain_text_show (key));
  return ok;
}

/* Everything goes into fresh options first, with the names of the properties that were set; they are moved over when
 * the whole file was right. */
static gboolean
load_member (OrtrainTrainingOptions *into, const char *key, JsonNode *node, GError **error)
{
  if (g_str_equal (key, "losses"))
    {
      JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
      for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
        {
          g_autoptr (GObject) loss = object_from_json ("loss", json_array_get_element (array, i), error);
          if (loss == NULL)
            return FALSE;
          ortrain_training_options_add_loss (into, ORTRAIN_LOSS (loss));
        }
      if (array == NULL)
        g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "Option 'losses' must be an array");
      return array != NULL;
    }
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (into), key);
  if (pspec != NULL && pspec->value_type == G_TYPE_STRV)
    {
      g_auto (GStrv) patterns = ortrain_json_get_strings (node);
      if (patterns == NULL)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                       "Option '%s' must be an array of strings", ortrain_text_show (key));
          return FALSE;
        }
      g_object_set (into, key, patterns, NULL);
      return TRUE;
    }
  if (g_str_equal (key, "padding-rows") || g_str_equal (key, "padding_rows"))
    {
      gboolean ok = JSON_NODE_HOLDS_OBJECT (node);
      JsonObjectIter iter;
      const char *name;
      JsonNode *row;
      if (ok)
        json_object_iter_init (&iter, json_node_get_object (node));
      while (ok && json_object_iter_next (&iter, &name, &row))
        {
          ok = JSON_NODE_HOLDS_VALUE (row) && json_node_get_value_type (row) == G_TYPE_INT64;
          if (ok)
            ortrain_training_options_set_padding_row (into, name, json_node_get_int (row));
        }
      if (!ok)
        g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                     "Option '%s' must be an object of names and row numbers", ortrain_text_show (key));
      return ok;
    }
  if (g_str_equal (key, "node-precisions") || g_str_equal (key, "node_precisions"))
    return load_node_precisions (into, key, node, error);
  if (g_str_equal (key, "ties"))
    {
      JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
      gboolean ok = array != NULL;
      for (guint i = 0; ok && i < json_array_get_length (array); i++)
        {
          g_auto (GStrv) pair = ortrain_json_get_strings (json_array_get_element (array, i));
          ok = pair != NULL && g_strv_length (pair) == 2;
          if (ok)
            ortrain_training_options_tie (into, pair[0], pair[1]);
        }
      if (!ok)
        g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                     "Option 'ties' must be an array of pairs of names");
      return ok;
    }
  return set_from_json (G_OBJECT (into), key, node, error);
}

/**
 * ortrain_training_options_new_from_file:
 * @path: (type filename): a JSON file
 * @error: return location for an error
 *
 * Creates options from a file. It fails as [method@TrainingOptions.load_file] does.
 *
 * Returns: (transfer full): the options; %NULL on error
 */
OrtrainTrainingOptions *
ortrain_training_options_new_from_file (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);

  g_autoptr (OrtrainTrainingOptions) self = ortrain_training_options_new ();
  if (!ortrain_training_options_load_file (self, path, error))
    return NULL;
  return g_steal_pointer (&self);
}

/**
 * ortrain_training_options_load_file:
 * @self: options
 * @path: (type filename): a JSON file
 * @error: return location for an error
 *
 * Reads options from a JSON file: an object with the properties of this class (`max_grad_norm` or `max-grad-norm`), and
 *
 * - `optimizer` and `schedule`: an object with `type` (`sgd`, `adam`, `adamw`, `lamb`, `adagrad`; `constant`, `linear`,
 *   `cosine`, `polynomial`, `step`, `one-cycle`, `plateau`, `warm-up`) and its properties;
 * - `losses`: an array of objects with `type` (`cross-entropy`, `nll`, `bce-with-logits`, `mse`, `l1`, `huber`,
 *   `output`) and its properties;
 * - `trainable`, `frozen`, `trainable-statistics`, `frozen-statistics`, `stop-gradient`: arrays of names or patterns;
 * - `ties`: an array of pairs of names;
 * - `padding-rows`: an object of names and rows, see [method@TrainingOptions.set_padding_row];
 * - `loss-scaler`: an object with the properties of [class@LossScaler], or a number, which is a static scale;
 * - `node-precisions`: an object of patterns and precisions, see [method@TrainingOptions.set_node_precision].
 *
 * Options that the file does not name keep their values. If anything in it is wrong, nothing is changed.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_OPTION, which names the member, and those of [error@GLib.FileError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_options_load_file (OrtrainTrainingOptions *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  g_autoptr (JsonNode) root = ortrain_json_read_options (path, error);
  if (root == NULL)
    return FALSE;
  g_autoptr (OrtrainTrainingOptions) fresh = ortrain_training_options_new ();
  JsonObject *object = json_node_get_object (root);
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;
  json_object_iter_init (&iter, object);
  while (json_object_iter_next (&iter, &key, &node))
    if (!load_member (fresh, key, node, error))
      {
        g_prefix_error (error, "Options file '%s': ", ortrain_text_show_path (path));
        return FALSE;
      }

  json_object_iter_init (&iter, object);
  while (json_object_iter_next (&iter, &key, &node))
    {
      if (g_str_equal (key, "losses"))
        {
          GListModel *losses = ortrain_training_options_get_losses (fresh);
          for (guint i = 0; i < g_list_model_get_n_items (losses); i++)
            {
              g_autoptr (OrtrainLoss) loss = g_list_model_get_item (losses, i);
              ortrain_training_options_add_loss (self, loss);
            }
        }
      else if (g_str_equal (key, "padding-rows") || g_str_equal (key, "padding_rows") ||
               g_str_equal (key, "node-precisions") || g_str_equal (key, "node_precisions"))
        load_member (self, key, node, NULL);
      else if (g_str_equal (key, "ties"))
        for (guint i = 0; i < ortrain_training_options_get_n_ties (fresh); i++)
          {
            const char *second;
            const char *first = ortrain_training_options_get_tie (fresh, i, &second);
            ortrain_training_options_tie (self, first, second);
          }
      else
        {
          GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (fresh), key);
          g_auto (GValue) value = G_VALUE_INIT;
          g_value_init (&value, pspec->value_type);
          g_object_get_property (G_OBJECT (fresh), pspec->name, &value);
          g_object_set_property (G_OBJECT (self), pspec->name, &value);
        }
    }
  return TRUE;
}
