/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-epoch-schedule-private.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "optim/ortrain-warm-up-schedule.h"

#include <math.h>

/**
 * OrtrainEpochSchedule:
 *
 * Another schedule, whose steps are epochs: the factor is the same for all updates of an epoch, as with PyTorch's
 * schedulers whose `step ()` is called once an epoch. With n [property@EpochSchedule:updates-per-epoch]:
 *
 *     f(t) = f_schedule (⌊t / n⌋)
 *
 * ```python
 * schedule = Ortrain.EpochSchedule(Ortrain.StepSchedule(step_size=30, gamma=0.1))     # a tenth every 30 epochs
 * schedule.updates_per_epoch = 500
 * print(schedule.evaluate(29 * 500)[1], schedule.evaluate(30 * 500)[1])       # 1, 0.1
 * ```
 *
 * A [class@Trainer] says how many updates an epoch has; in a loop of your own, set it. Where it changes, as in a
 * training that is resumed with another batch size, epochs are counted on from where they are. Checkpoints have that,
 * too.
 */

struct _OrtrainEpochSchedule
{
  OrtrainLrSchedule parent_instance;
  OrtrainLrSchedule *schedule;
  guint64 updates_per_epoch;
  /* where epochs got this long */
  guint64 first_step;
  double first_epoch;
};

G_DEFINE_FINAL_TYPE (OrtrainEpochSchedule, ortrain_epoch_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_SCHEDULE,
  PROP_UPDATES_PER_EPOCH,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* With an allowance for a sum of quotients that should be whole. */
#define ROUNDING 1e-9

static double
find_epoch (const OrtrainEpochSchedule *self, guint64 step)
{
  if (step < self->first_step) /* earlier epochs are not recorded */
    return self->first_epoch;
  return self->first_epoch + (double) (step - self->first_step) / (double) self->updates_per_epoch;
}

static gboolean
ortrain_epoch_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainEpochSchedule *self = ORTRAIN_EPOCH_SCHEDULE (schedule);
  if (self->schedule == NULL)
    {
      *factor = 1.0;
      return TRUE;
    }
  if (self->updates_per_epoch == 0)
    {
      g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                           "how many updates an epoch has is not known: a Trainer says it, in other loops set "
                           "updates-per-epoch");
      return FALSE;
    }
  const guint64 epoch = (guint64) floor (find_epoch (self, step) + ROUNDING);
  return ortrain_lr_schedule_evaluate (self->schedule, epoch, factor, error);
}

static void
ortrain_epoch_schedule_observe (OrtrainLrSchedule *schedule, double metric)
{
  OrtrainEpochSchedule *self = ORTRAIN_EPOCH_SCHEDULE (schedule);
  if (self->schedule != NULL)
    ortrain_lr_schedule_observe (self->schedule, metric);
}

static GVariant *
ortrain_epoch_schedule_save_state (OrtrainLrSchedule *schedule)
{
  OrtrainEpochSchedule *self = ORTRAIN_EPOCH_SCHEDULE (schedule);
  g_autoptr (GVariant) state = self->schedule != NULL ? ortrain_lr_schedule_save_state (self->schedule) : NULL;
  return g_variant_new (
      "(ttd@mv)", self->updates_per_epoch, self->first_step, self->first_epoch,
      g_variant_new_maybe (G_VARIANT_TYPE_VARIANT, state != NULL ? g_variant_new_variant (state) : NULL));
}

static gboolean
ortrain_epoch_schedule_load_state (OrtrainLrSchedule *schedule, GVariant *state)
{
  OrtrainEpochSchedule *self = ORTRAIN_EPOCH_SCHEDULE (schedule);
  guint64 updates_per_epoch, first_step;
  double first_epoch;
  g_autoptr (GVariant) inner = NULL;
  if (!g_variant_is_of_type (state, G_VARIANT_TYPE ("(ttdmv)")))
    return FALSE;
  g_variant_get (state, "(ttdmv)", &updates_per_epoch, &first_step, &first_epoch, &inner);
  if (!(first_epoch >= 0 && first_epoch < 1e15) ||
      (inner != NULL && (self->schedule == NULL || !ortrain_lr_schedule_load_state (self->schedule, inner))))
    return FALSE;
  self->first_step = first_step;
  self->first_epoch = first_epoch;
  ortrain_field_set_uint64 (self, properties[PROP_UPDATES_PER_EPOCH], updates_per_epoch);
  return TRUE;
}

static void
ortrain_epoch_schedule_finalize (GObject *object)
{
  OrtrainEpochSchedule *self = ORTRAIN_EPOCH_SCHEDULE (object);

  g_clear_object (&self->schedule);

  G_OBJECT_CLASS (ortrain_epoch_schedule_parent_class)->finalize (object);
}

static void
ortrain_epoch_schedule_class_init (OrtrainEpochScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_epoch_schedule_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_epoch_schedule_evaluate;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->observe = ortrain_epoch_schedule_observe;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->save_state = ortrain_epoch_schedule_save_state;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->load_state = ortrain_epoch_schedule_load_state;

  /**
   * OrtrainEpochSchedule:schedule: (getter get_schedule)
   *
   * The schedule whose steps are epochs; %NULL for the factor 1. Construct-only. Default: %NULL.
   */
  properties[PROP_SCHEDULE] =
      ortrain_field_at (g_param_spec_object ("schedule", NULL, NULL, ORTRAIN_TYPE_LR_SCHEDULE,
                                             G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS),
                        G_STRUCT_OFFSET (OrtrainEpochSchedule, schedule));

  /**
   * OrtrainEpochSchedule:updates-per-epoch: (getter get_updates_per_epoch) (setter set_updates_per_epoch)
   *
   * How many updates an epoch has; 0: not known, and then there is no factor. A [class@Trainer] sets it. Default: 0.
   */
  properties[PROP_UPDATES_PER_EPOCH] = ortrain_field_uint64 (
      "updates-per-epoch", G_STRUCT_OFFSET (OrtrainEpochSchedule, updates_per_epoch), 0, G_MAXUINT64, 0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_epoch_schedule_init (OrtrainEpochSchedule *self)
{
}

typedef struct
{
  OrtrainLrSchedule *schedule;
  guint64 updates_per_epoch, step;
} BeginCall;

static void
begin_in_context (gpointer data)
{
  const BeginCall *call = data;
  ortrain_lr_schedule_begin_epochs (call->schedule, call->updates_per_epoch, call->step);
}

void
ortrain_lr_schedule_begin_epochs (OrtrainLrSchedule *schedule, guint64 updates_per_epoch, guint64 step)
{
  while (ORTRAIN_IS_WARM_UP_SCHEDULE (schedule))
    {
      const guint64 rise = ortrain_warm_up_schedule_get_steps (ORTRAIN_WARM_UP_SCHEDULE (schedule));
      step -= MIN (step, rise);
      schedule = ortrain_warm_up_schedule_get_after (ORTRAIN_WARM_UP_SCHEDULE (schedule));
    }
  if (schedule == NULL || !ORTRAIN_IS_EPOCH_SCHEDULE (schedule))
    return;
  OrtrainEpochSchedule *self = ORTRAIN_EPOCH_SCHEDULE (schedule);
  if (self->updates_per_epoch == updates_per_epoch)
    return;
  if (ortrain_dispatch_is_needed (schedule)) /* notify is emitted on the thread of the owner */
    {
      BeginCall call = { .schedule = schedule, .updates_per_epoch = updates_per_epoch, .step = step };
      ortrain_dispatch_call (begin_in_context, &call);
      return;
    }
  if (self->updates_per_epoch != 0)
    {
      self->first_epoch = find_epoch (self, step);
      self->first_step = step;
    }
  ortrain_field_set_uint64 (self, properties[PROP_UPDATES_PER_EPOCH], updates_per_epoch);
}

/**
 * ortrain_epoch_schedule_new:
 * @schedule: (nullable): the schedule whose steps are epochs; %NULL for a factor of 1
 *
 * Creates a schedule that goes on once an epoch.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_epoch_schedule_new (OrtrainLrSchedule *schedule)
{
  g_return_val_if_fail (schedule == NULL || ORTRAIN_IS_LR_SCHEDULE (schedule), NULL);
  return g_object_new (ORTRAIN_TYPE_EPOCH_SCHEDULE, "schedule", schedule, NULL);
}

/**
 * ortrain_epoch_schedule_get_schedule: (get-property schedule)
 * @self: the object
 *
 * Gets the schedule whose steps are epochs.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainLrSchedule *
ortrain_epoch_schedule_get_schedule (OrtrainEpochSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_SCHEDULE (self), NULL);
  return self->schedule;
}

/**
 * ortrain_epoch_schedule_get_updates_per_epoch: (get-property updates-per-epoch)
 * @self: the object
 *
 * Gets how many updates an epoch has; 0: not known.
 *
 * Returns: the value
 */
guint64
ortrain_epoch_schedule_get_updates_per_epoch (OrtrainEpochSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_SCHEDULE (self), 0);
  return self->updates_per_epoch;
}

/**
 * ortrain_epoch_schedule_set_updates_per_epoch: (set-property updates-per-epoch)
 * @self: the object
 * @updates_per_epoch: the new value
 *
 * Sets how many updates an epoch has; 0: not known.
 */
void
ortrain_epoch_schedule_set_updates_per_epoch (OrtrainEpochSchedule *self, guint64 updates_per_epoch)
{
  g_return_if_fail (ORTRAIN_IS_EPOCH_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_UPDATES_PER_EPOCH], updates_per_epoch);
}
