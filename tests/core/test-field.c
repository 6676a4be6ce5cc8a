/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/* One property of each kind. */
typedef struct
{
  GObject parent_instance;
  gboolean on;
  guint count;
  guint64 seed;
  double rate;
  OrtrainAdamwMode mode;
  gint axis;
  gint64 ignored;
  char *name;
  GObject *partner;
  double measured;
} TestThing;

typedef GObjectClass TestThingClass;

static GType test_thing_get_type (void);
G_DEFINE_FINAL_TYPE (TestThing, test_thing, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_ON,
  PROP_COUNT,
  PROP_SEED,
  PROP_RATE,
  PROP_MODE,
  PROP_AXIS,
  PROP_IGNORED,
  PROP_NAME,
  PROP_PARTNER,
  PROP_MEASURED,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
test_thing_finalize (GObject *object)
{
  TestThing *self = (TestThing *) object;
  g_free (self->name);
  g_clear_object (&self->partner);
  G_OBJECT_CLASS (test_thing_parent_class)->finalize (object);
}

static void
test_thing_class_init (TestThingClass *klass)
{
  klass->finalize = test_thing_finalize;
  klass->get_property = ortrain_field_get_property;
  klass->set_property = ortrain_field_set_property;
  properties[PROP_ON] = ortrain_field_boolean ("on", G_STRUCT_OFFSET (TestThing, on), TRUE);
  properties[PROP_COUNT] = ortrain_field_uint ("count", G_STRUCT_OFFSET (TestThing, count), 1, 9, 3);
  properties[PROP_SEED] = ortrain_field_uint64 ("seed", G_STRUCT_OFFSET (TestThing, seed), 0, G_MAXUINT64, 7);
  properties[PROP_RATE] = ortrain_field_double ("rate", G_STRUCT_OFFSET (TestThing, rate), 0.0, 1.0, 0.5);
  properties[PROP_MODE] = ortrain_field_enum ("mode", G_STRUCT_OFFSET (TestThing, mode), ORTRAIN_TYPE_ADAMW_MODE,
                                              ORTRAIN_ADAMW_MODE_DECAY_LAST);
  properties[PROP_AXIS] = ortrain_field_at (g_param_spec_int ("axis", NULL, NULL, -4, 3, -1, G_PARAM_READWRITE),
                                            G_STRUCT_OFFSET (TestThing, axis));
  properties[PROP_IGNORED] = ortrain_field_at (
      g_param_spec_int64 ("ignored", NULL, NULL, G_MININT64, G_MAXINT64, G_MININT64, G_PARAM_READWRITE),
      G_STRUCT_OFFSET (TestThing, ignored));
  properties[PROP_MEASURED] =
      ortrain_field_at (g_param_spec_double ("measured", NULL, NULL, 0.0, 1.0, 0.25, G_PARAM_READABLE),
                        G_STRUCT_OFFSET (TestThing, measured));
  properties[PROP_NAME] = ortrain_field_string ("name", G_STRUCT_OFFSET (TestThing, name));
  properties[PROP_PARTNER] = ortrain_field_object ("partner", G_STRUCT_OFFSET (TestThing, partner), ORTRAIN_TYPE_SGD);
  g_object_class_install_properties (klass, N_PROPERTIES, properties);
}

static void
test_thing_init (TestThing *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

static void
on_notify (GObject *object, GParamSpec *pspec, gpointer user_data)
{
  ++*(guint *) user_data;
}

static void
test_defaults (void)
{
  g_autoptr (GObject) object = g_object_new (test_thing_get_type (), NULL);
  const TestThing *thing = (TestThing *) object;
  g_assert_true (thing->on);
  g_assert_cmpuint (thing->count, ==, 3);
  g_assert_cmpuint (thing->seed, ==, 7);
  g_assert_cmpfloat (thing->rate, ==, 0.5);
  g_assert_cmpint (thing->mode, ==, ORTRAIN_ADAMW_MODE_DECAY_LAST);
  g_assert_cmpint (thing->axis, ==, -1);
  g_assert_cmpint (thing->ignored, ==, G_MININT64);
  g_assert_null (thing->name);
  g_assert_null (thing->partner);
  g_assert_cmpfloat (thing->measured, ==, 0.0); /* only read: the class's own matter */
}

static void
test_set (void)
{
  g_autoptr (GObject) object = g_object_new (test_thing_get_type (), NULL);
  g_autoptr (OrtrainOptimizer) sgd = ortrain_sgd_new (1e-3);
  TestThing *thing = (TestThing *) object;
  guint n = 0;
  g_signal_connect (object, "notify", G_CALLBACK (on_notify), &n);
  for (guint round = 0; round < 2; round++) /* in the second, nothing changes, and nothing is told */
    {
      ortrain_field_set_boolean (object, properties[PROP_ON], FALSE);
      ortrain_field_set_uint (object, properties[PROP_COUNT], 9);
      ortrain_field_set_uint64 (object, properties[PROP_SEED], G_MAXUINT64);
      ortrain_field_set_double (object, properties[PROP_RATE], nextafter (0.5, 1.0));
      ortrain_field_set_enum (object, properties[PROP_MODE], ORTRAIN_ADAMW_MODE_DECAY_FIRST);
      ortrain_field_set_string (object, properties[PROP_NAME], "name");
      ortrain_field_set_object (object, properties[PROP_PARTNER], sgd);
      g_assert_cmpuint (n, ==, 7);
    }
  ortrain_field_set_string (object, properties[PROP_NAME], thing->name); /* its own */
  g_assert_false (thing->on);
  g_assert_cmpuint (thing->count, ==, 9);
  g_assert_cmpuint (thing->seed, ==, G_MAXUINT64);
  g_assert_cmpfloat (thing->rate, ==, nextafter (0.5, 1.0));
  g_assert_cmpint (thing->mode, ==, ORTRAIN_ADAMW_MODE_DECAY_FIRST);
  g_assert_cmpstr (thing->name, ==, "name");
  g_assert_true (thing->partner == G_OBJECT (sgd));

  g_object_set (object, "rate", 1.0, "name", NULL, "partner", NULL, "on", TRUE, NULL);
  double rate;
  gboolean on;
  gint axis;
  gint64 ignored;
  g_object_set (object, "axis", 2, "ignored", G_GINT64_CONSTANT (-100), NULL);
  thing->measured = 0.75;
  double measured;
  g_object_get (object, "rate", &rate, "on", &on, "axis", &axis, "ignored", &ignored, "measured", &measured, NULL);
  g_assert_cmpint (axis, ==, 2);
  g_assert_cmpint (ignored, ==, -100);
  g_assert_cmpfloat (measured, ==, 0.75);
  g_assert_cmpfloat (rate, ==, 1.0);
  g_assert_true (on);
  g_assert_null (thing->name);
  g_assert_null (thing->partner);
  g_assert_cmpuint (n, ==, 13);
}

static void
test_refused (void)
{
  g_autoptr (GObject) object = g_object_new (test_thing_get_type (), NULL);
  g_autoptr (OrtrainOptimizer) adam = ortrain_adam_new (1e-3);
  const TestThing *thing = (TestThing *) object;
  guint n = 0;
  g_signal_connect (object, "notify", G_CALLBACK (on_notify), &n);
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "0 cannot be the count of TestThing");
  ortrain_field_set_uint (object, properties[PROP_COUNT], 0);
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "10 cannot be the count of TestThing");
  ortrain_field_set_uint (object, properties[PROP_COUNT], 10);
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "* cannot be the rate of TestThing");
  ortrain_field_set_double (object, properties[PROP_RATE], NAN);
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "* cannot be the mode of TestThing");
  ortrain_field_set_enum (object, properties[PROP_MODE], 99);
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "*assertion*failed");
  ortrain_field_set_object (object, properties[PROP_PARTNER], adam);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (thing->count, ==, 3);
  g_assert_cmpfloat (thing->rate, ==, 0.5);
  g_assert_cmpint (thing->mode, ==, ORTRAIN_ADAMW_MODE_DECAY_LAST);
  g_assert_null (thing->partner);
  g_assert_cmpuint (n, ==, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/field/defaults", test_defaults);
  g_test_add_func ("/field/set", test_set);
  g_test_add_func ("/field/refused", test_refused);
  return g_test_run ();
}
