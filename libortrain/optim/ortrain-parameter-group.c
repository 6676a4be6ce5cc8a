/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-parameter-group.h"

#include "core/ortrain-field-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "optim/ortrain-optimizer-private.h"

/**
 * OrtrainParameterGroup:
 *
 * Parameters that an optimizer treats in their own way: those whose names match a pattern. [method@Optimizer.add_group]
 * creates one. Where a name matches several groups of an optimizer, the one that was added last counts.
 *
 * ```python
 * optimizer = Ortrain.AdamW(learning_rate=5e-5)
 * group = optimizer.add_group("encoder.*.weight", 0.1, -1)
 * group.learning_rate_multiplier = 0.2      # from the next step on
 * print(group.get_pattern(), group.matches("encoder.0.weight"))
 * ```
 *
 * The properties may be changed between steps, and count from the next one on. One thread at a time may use a group.
 */

struct _OrtrainParameterGroup
{
  GObject parent_instance;
  double learning_rate_multiplier;
  double weight_decay;
  char *pattern;
  GPatternSpec *spec;
};

G_DEFINE_FINAL_TYPE (OrtrainParameterGroup, ortrain_parameter_group, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_LEARNING_RATE_MULTIPLIER,
  PROP_WEIGHT_DECAY,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_parameter_group_finalize (GObject *object)
{
  OrtrainParameterGroup *self = ORTRAIN_PARAMETER_GROUP (object);

  g_free (self->pattern);
  g_clear_pointer (&self->spec, g_pattern_spec_free);

  G_OBJECT_CLASS (ortrain_parameter_group_parent_class)->finalize (object);
}

static void
ortrain_parameter_group_class_init (OrtrainParameterGroupClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_parameter_group_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;

  /**
   * OrtrainParameterGroup:learning-rate-multiplier: (getter get_learning_rate_multiplier) (setter set_learning_rate_multiplier)
   *
   * The factor on the optimizer's learning rate for these parameters; 0 leaves them unchanged. Default: 1, not
   * negative.
   */
  properties[PROP_LEARNING_RATE_MULTIPLIER] =
      ortrain_field_double ("learning-rate-multiplier",
                            G_STRUCT_OFFSET (OrtrainParameterGroup, learning_rate_multiplier), 0.0, G_MAXDOUBLE, 1.0);

  /**
   * OrtrainParameterGroup:weight-decay: (getter get_weight_decay) (setter set_weight_decay)
   *
   * The weight decay of these parameters; -1 for that of the optimizer. Default: -1, at least -1.
   */
  properties[PROP_WEIGHT_DECAY] = ortrain_field_double (
      "weight-decay", G_STRUCT_OFFSET (OrtrainParameterGroup, weight_decay), -1.0, G_MAXDOUBLE, -1.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_parameter_group_init (OrtrainParameterGroup *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_parameter_group_new:
 * @pattern: a name, or a glob pattern: `*` stands for any characters, `?` for one
 *
 * Creates a group of the parameters whose names, scoped names ([property@ParameterInfo:scoped-name]) or modules match
 * @pattern. An optimizer knows it only through
 * [method@Optimizer.add_group].
 *
 * Returns: (transfer full): the new object
 */
OrtrainParameterGroup *
ortrain_parameter_group_new (const char *pattern)
{
  g_return_val_if_fail (pattern != NULL, NULL);

  OrtrainParameterGroup *self = g_object_new (ORTRAIN_TYPE_PARAMETER_GROUP, NULL);
  self->pattern = g_strdup (pattern);
  self->spec = g_pattern_spec_new (pattern);
  return self;
}

/**
 * ortrain_parameter_group_get_learning_rate_multiplier: (get-property learning-rate-multiplier)
 * @self: the object
 *
 * Gets the factor on the optimizer's learning rate for these parameters; 0 leaves them unchanged.
 *
 * Returns: the value
 */
double
ortrain_parameter_group_get_learning_rate_multiplier (OrtrainParameterGroup *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_GROUP (self), 0);
  return self->learning_rate_multiplier;
}

/**
 * ortrain_parameter_group_set_learning_rate_multiplier: (set-property learning-rate-multiplier)
 * @self: the object
 * @learning_rate_multiplier: the new value
 *
 * Sets the factor on the optimizer's learning rate for these parameters; 0 leaves them unchanged.
 */
void
ortrain_parameter_group_set_learning_rate_multiplier (OrtrainParameterGroup *self, double learning_rate_multiplier)
{
  g_return_if_fail (ORTRAIN_IS_PARAMETER_GROUP (self));

  ortrain_field_set_double (self, properties[PROP_LEARNING_RATE_MULTIPLIER], learning_rate_multiplier);
}

/**
 * ortrain_parameter_group_get_weight_decay: (get-property weight-decay)
 * @self: the object
 *
 * Gets the weight decay of these parameters; -1 for that of the optimizer.
 *
 * Returns: the value
 */
double
ortrain_parameter_group_get_weight_decay (OrtrainParameterGroup *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_GROUP (self), 0);
  return self->weight_decay;
}

/**
 * ortrain_parameter_group_set_weight_decay: (set-property weight-decay)
 * @self: the object
 * @weight_decay: the new value
 *
 * Sets the weight decay of these parameters; -1 for that of the optimizer.
 */
void
ortrain_parameter_group_set_weight_decay (OrtrainParameterGroup *self, double weight_decay)
{
  g_return_if_fail (ORTRAIN_IS_PARAMETER_GROUP (self));

  ortrain_field_set_double (self, properties[PROP_WEIGHT_DECAY], weight_decay);
}

/**
 * ortrain_parameter_group_get_pattern:
 * @self: a group
 *
 * Gets the pattern of the names of the parameters: `*` matches any characters, `?` one.
 *
 * Returns: (transfer none) (nullable): the pattern
 */
const char *
ortrain_parameter_group_get_pattern (OrtrainParameterGroup *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_GROUP (self), NULL);
  return self->pattern;
}

/**
 * ortrain_parameter_group_matches:
 * @self: a group
 * @name: the name of a parameter
 *
 * Tells whether a name is the pattern, or matches it.
 *
 * Returns: whether the parameter of that name belongs to the group
 */
gboolean
ortrain_parameter_group_matches (OrtrainParameterGroup *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_GROUP (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  return ortrain_parameter_group_fits (self, name, NULL);
}

gboolean
ortrain_parameter_group_fits (OrtrainParameterGroup *self, const char *name, const char *scoped_name)
{
  return self->pattern != NULL && ortrain_scoped_name_matches (self->pattern, self->spec, name, scoped_name);
}
