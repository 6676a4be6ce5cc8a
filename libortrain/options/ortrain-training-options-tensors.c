/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which tensors of the model are trained: all, some, without a row, or two as one. */
#include "options/ortrain-training-options-class-private.h"

#include "options/ortrain-training-options-private.h"

static void
set_patterns (OrtrainTrainingOptions *self, char ***list, const char *const *patterns, guint property)
{
  char **copy = g_strdupv ((char **) patterns);
  g_strfreev (*list);
  *list = copy;
  g_object_notify_by_pspec (G_OBJECT (self), ortrain_training_options_properties[property]);
}

/**
 * ortrain_training_options_get_trainable: (get-property trainable)
 * @self: options
 *
 * Gets which initializers and Constant nodes are trained, by name or glob pattern, see
 * [method@TrainingOptions.set_trainable]; %NULL for all weights.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the patterns; %NULL for all that can be
 */
const char *const *
ortrain_training_options_get_trainable (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return (const char *const *) self->trainable;
}

/**
 * ortrain_training_options_set_trainable: (set-property trainable)
 * @self: options
 * @patterns: (nullable) (array zero-terminated=1): names, or glob patterns (`*` any characters, `?` one); %NULL for all
 * that can be
 *
 * Sets which tensors of the model, initializers and Constant nodes, are trained. Without a choice, all weights are:
 * operands for which an operator has a weight, and operands that scale or shift channels that a weight computed.
 * Constants of formulas (one number, an epsilon, a mask, a limit, an exponent, an initial state) are not.
 *
 * Patterns match the name of a tensor, its scoped name ([property@ParameterInfo:scoped-name]:
 * `encoder.layer.0.query.weight` for `val_57`), or the path of its module, `encoder.layer.0.query`.
 *
 * A pattern chooses among the weights; if it fits none, among the constants. A name overrules: it trains a constant
 * too, if its type is floating and the loss depends on it. [method@CheckReport.get_parameters] lists which is which,
 * and why. A pattern that fits nothing that can be trained is an error when a session is created.
 */
void
ortrain_training_options_set_trainable (OrtrainTrainingOptions *self, const char *const *patterns)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  set_patterns (self, &self->trainable, patterns, PROP_TRAINABLE);
}

/**
 * ortrain_training_options_get_frozen: (get-property frozen)
 * @self: options
 *
 * Gets which initializers are not trained, by name or glob pattern; it overrules [property@TrainingOptions:trainable].
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the patterns; %NULL for none
 */
const char *const *
ortrain_training_options_get_frozen (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return (const char *const *) self->frozen;
}

/**
 * ortrain_training_options_set_frozen: (set-property frozen)
 * @self: options
 * @patterns: (nullable) (array zero-terminated=1): names, or glob patterns (`*` any characters, `?` one); %NULL for
 * none
 *
 * Sets which tensors of the model are not trained, by patterns as in [method@TrainingOptions.set_trainable]. A frozen
 * tensor is not trained, whatever [property@TrainingOptions:trainable] says.
 */
void
ortrain_training_options_set_frozen (OrtrainTrainingOptions *self, const char *const *patterns)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  set_patterns (self, &self->frozen, patterns, PROP_FROZEN);
}

/**
 * ortrain_training_options_get_trainable_statistics: (get-property trainable-statistics)
 * @self: options
 *
 * Gets the layers whose running statistics are trained although they would be kept otherwise, as names or glob
 * patterns; %NULL for none.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the patterns
 */
const char *const *
ortrain_training_options_get_trainable_statistics (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return (const char *const *) self->trainable_statistics;
}

/**
 * ortrain_training_options_set_trainable_statistics: (set-property trainable-statistics)
 * @self: options
 * @patterns: (nullable) (array zero-terminated=1): names, or glob patterns (`*` any characters, `?` one); %NULL for
 * none
 *
 * Sets the layers whose running statistics are trained although they would be kept otherwise: because all parameters of
 * the layer are frozen, or because [property@TrainingOptions:batch-norm] is %ORTRAIN_BATCH_NORM_MODE_FROZEN.
 *
 * Patterns match the names, the scoped names (`encoder.bn1.running_mean`) or the module (`encoder.bn1`) of the tensors
 * of a layer, or the name of the layer; `*` stands for all of them. A pattern that fits no layer with running
 * statistics is an error when a session is created.
 */
void
ortrain_training_options_set_trainable_statistics (OrtrainTrainingOptions *self, const char *const *patterns)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  set_patterns (self, &self->trainable_statistics, patterns, PROP_TRAINABLE_STATISTICS);
}

/**
 * ortrain_training_options_get_frozen_statistics: (get-property frozen-statistics)
 * @self: options
 *
 * Gets the layers whose running statistics are kept, as names or glob patterns; %NULL for none.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the patterns
 */
const char *const *
ortrain_training_options_get_frozen_statistics (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return (const char *const *) self->frozen_statistics;
}

/**
 * ortrain_training_options_set_frozen_statistics: (set-property frozen-statistics)
 * @self: options
 * @patterns: (nullable) (array zero-terminated=1): names, or glob patterns (`*` any characters, `?` one); %NULL for
 * none
 *
 * Sets the layers whose running statistics are kept, by patterns as in
 * [method@TrainingOptions.set_trainable_statistics]: these layers normalize by the stored statistics, whether or not
 * their parameters are trained.
 */
void
ortrain_training_options_set_frozen_statistics (OrtrainTrainingOptions *self, const char *const *patterns)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  set_patterns (self, &self->frozen_statistics, patterns, PROP_FROZEN_STATISTICS);
}

/**
 * ortrain_training_options_get_stop_gradient: (get-property stop-gradient)
 * @self: options
 *
 * Gets the values through which no gradient flows, as names or glob patterns; %NULL for none.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the patterns
 */
const char *const *
ortrain_training_options_get_stop_gradient (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return (const char *const *) self->stop_gradient;
}

/**
 * ortrain_training_options_set_stop_gradient: (set-property stop-gradient)
 * @self: options
 * @patterns: (nullable) (array zero-terminated=1): names, or glob patterns (`*` any characters, `?` one); %NULL for
 * none
 *
 * Sets the values through which no gradient flows. All nodes that read such a value treat it as a constant in the
 * backward pass, as after PyTorch's `detach ()` and in `no_grad ()`, of which a file usually has no trace. Outputs do
 * not change, in training and in the exported file.
 *
 * Patterns match the name of a value (`linear_1`, `/encoder/Relu_output_0`), of the node that computes it, or the path
 * of the module of that node (`encoder.layer.0`), which stops the gradient at each value of the module. Parameters that
 * get no gradient because of it are not trained; [method@TrainingSession.get_notes] names them. Values that PyTorch's
 * newer exporter (dynamo) marks as detached are stopped without a pattern. An empty pattern is an error. A pattern that
 * fits no value that the model computes and reads is an error when a session is created.
 */
void
ortrain_training_options_set_stop_gradient (OrtrainTrainingOptions *self, const char *const *patterns)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  set_patterns (self, &self->stop_gradient, patterns, PROP_STOP_GRADIENT);
}

/**
 * ortrain_training_options_set_padding_row:
 * @self: options
 * @name: the name, or the scoped name, of an initializer that is looked up by Gather, and nothing else
 * @row: the row that is not trained; -1 if all are
 *
 * Sets the row of an embedding that stands for padding and has no gradient: `padding_idx` of PyTorch's Embedding. Files
 * of PyTorch's newer exporter (dynamo) carry this number, and it is used unless it is set here. Files of the older one
 * do not: without this call, all rows of their tables are trained.
 */
void
ortrain_training_options_set_padding_row (OrtrainTrainingOptions *self, const char *name, gint64 row)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));
  g_return_if_fail (name != NULL);

  g_hash_table_insert (self->padding_rows, g_strdup (name), g_memdup2 (&row, sizeof row));
}

/**
 * ortrain_training_options_get_padding_row:
 * @self: options
 * @name: the name of an initializer
 * @row: (out): the row that is not trained; -1 if all are
 *
 * Looks up which row of an embedding [method@TrainingOptions.set_padding_row] has excluded from training.
 *
 * Returns: whether one was set
 */
gboolean
ortrain_training_options_get_padding_row (OrtrainTrainingOptions *self, const char *name, gint64 *row)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), FALSE);
  g_return_val_if_fail (name != NULL && row != NULL, FALSE);

  const gint64 *found = g_hash_table_lookup (self->padding_rows, name);
  *row = found != NULL ? *found : -1;
  return found != NULL;
}

char **
ortrain_training_options_list_padding_rows (OrtrainTrainingOptions *self)
{
  g_autofree gpointer *names = g_hash_table_get_keys_as_array (self->padding_rows, NULL);
  return g_strdupv ((char **) names);
}

/**
 * ortrain_training_options_tie:
 * @self: options
 * @first: the name, or the scoped name ([property@ParameterInfo:scoped-name]), of an initializer
 * @second: that of an initializer of the same shape, or of the transposed one
 *
 * Trains a parameter that a file stores twice as one: the second initializer follows the first, transposed where the
 * shapes say so.
 */
void
ortrain_training_options_tie (OrtrainTrainingOptions *self, const char *first, const char *second)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));
  g_return_if_fail (first != NULL && second != NULL);

  g_ptr_array_add (self->ties, g_strdup (first));
  g_ptr_array_add (self->ties, g_strdup (second));
}

/**
 * ortrain_training_options_get_n_ties:
 * @self: options
 *
 * Counts the pairs of initializers that are trained as one parameter.
 *
 * Returns: how many there are
 */
guint
ortrain_training_options_get_n_ties (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);

  return self->ties->len / 2;
}

/**
 * ortrain_training_options_get_tie:
 * @self: options
 * @index: the number of a tie
 * @second: (out) (optional) (transfer none): the initializer that follows
 *
 * Gets a pair of initializers that are trained as one parameter.
 *
 * Returns: (transfer none) (nullable): the initializer that is followed; %NULL if there are not so many ties
 */
const char *
ortrain_training_options_get_tie (OrtrainTrainingOptions *self, guint index, const char **second)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  if (index >= self->ties->len / 2)
    {
      if (second != NULL)
        *second = NULL;
      return NULL;
    }
  if (second != NULL)
    *second = self->ties->pdata[2 * index + 1];
  return self->ties->pdata[2 * index];
}
