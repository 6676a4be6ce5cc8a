/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-field-private.h"

#include <math.h>

#define FLAGS (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY)

/* clang-format off */
static G_DEFINE_QUARK (ortrain-field-offset, offset)
/* clang-format on */

GParamSpec *
ortrain_field_at (GParamSpec *pspec, gsize offset)
{
  g_param_spec_set_qdata (pspec, offset_quark (), GSIZE_TO_POINTER (offset));
  return pspec;
}

GParamSpec *
ortrain_field_boolean (const char *name, gsize offset, gboolean initial)
{
  return ortrain_field_at (g_param_spec_boolean (name, NULL, NULL, initial, FLAGS), offset);
}

GParamSpec *
ortrain_field_uint (const char *name, gsize offset, guint minimum, guint maximum, guint initial)
{
  return ortrain_field_at (g_param_spec_uint (name, NULL, NULL, minimum, maximum, initial, FLAGS), offset);
}

GParamSpec *
ortrain_field_uint64 (const char *name, gsize offset, guint64 minimum, guint64 maximum, guint64 initial)
{
  return ortrain_field_at (g_param_spec_uint64 (name, NULL, NULL, minimum, maximum, initial, FLAGS), offset);
}

GParamSpec *
ortrain_field_bytes (const char *name, gsize offset)
{
  GParamSpec *pspec = ortrain_field_uint64 (name, offset, 0, G_MAXUINT64, 0);
  pspec->flags |= ORTRAIN_FIELD_BYTES;
  return pspec;
}

GParamSpec *
ortrain_field_double (const char *name, gsize offset, double minimum, double maximum, double initial)
{
  return ortrain_field_at (g_param_spec_double (name, NULL, NULL, minimum, maximum, initial, FLAGS), offset);
}

GParamSpec *
ortrain_field_enum (const char *name, gsize offset, GType type, gint initial)
{
  return ortrain_field_at (g_param_spec_enum (name, NULL, NULL, type, initial, FLAGS), offset);
}

GParamSpec *
ortrain_field_string (const char *name, gsize offset)
{
  return ortrain_field_string_with_default (name, offset, NULL);
}

GParamSpec *
ortrain_field_string_with_default (const char *name, gsize offset, const char *initial)
{
  return ortrain_field_at (g_param_spec_string (name, NULL, NULL, initial, FLAGS), offset);
}

GParamSpec *
ortrain_field_object (const char *name, gsize offset, GType type)
{
  return ortrain_field_at (g_param_spec_object (name, NULL, NULL, type, FLAGS), offset);
}

/* NULL for a property that is no field. */
static gpointer
address_of (gpointer object, GParamSpec *pspec)
{
  gsize offset = GPOINTER_TO_SIZE (g_param_spec_get_qdata (pspec, offset_quark ()));
  return offset > 0 ? G_STRUCT_MEMBER_P (object, offset) : NULL;
}

static void
load (gpointer object, GParamSpec *pspec, GValue *value)
{
  gconstpointer field = address_of (object, pspec);
  switch (G_TYPE_FUNDAMENTAL (G_PARAM_SPEC_VALUE_TYPE (pspec)))
    {
    case G_TYPE_BOOLEAN:
      g_value_set_boolean (value, *(const gboolean *) field);
      break;
    case G_TYPE_INT:
      g_value_set_int (value, *(const gint *) field);
      break;
    case G_TYPE_INT64:
      g_value_set_int64 (value, *(const gint64 *) field);
      break;
    case G_TYPE_UINT:
      g_value_set_uint (value, *(const guint *) field);
      break;
    case G_TYPE_UINT64:
      g_value_set_uint64 (value, *(const guint64 *) field);
      break;
    case G_TYPE_DOUBLE:
      g_value_set_double (value, *(const double *) field);
      break;
    case G_TYPE_ENUM:
      g_value_set_enum (value, *(const gint *) field);
      break;
    case G_TYPE_STRING:
      g_value_set_string (value, *(char *const *) field);
      break;
    case G_TYPE_INTERFACE:
    case G_TYPE_OBJECT:
      g_value_set_object (value, *(GObject *const *) field);
      break;
    default:
      g_assert_not_reached ();
    }
}

static void
store (gpointer object, GParamSpec *pspec, const GValue *value)
{
  gpointer field = address_of (object, pspec);
  switch (G_TYPE_FUNDAMENTAL (G_PARAM_SPEC_VALUE_TYPE (pspec)))
    {
    case G_TYPE_BOOLEAN:
      *(gboolean *) field = g_value_get_boolean (value);
      break;
    case G_TYPE_INT:
      *(gint *) field = g_value_get_int (value);
      break;
    case G_TYPE_INT64:
      *(gint64 *) field = g_value_get_int64 (value);
      break;
    case G_TYPE_UINT:
      *(guint *) field = g_value_get_uint (value);
      break;
    case G_TYPE_UINT64:
      *(guint64 *) field = g_value_get_uint64 (value);
      break;
    case G_TYPE_DOUBLE:
      *(double *) field = g_value_get_double (value);
      break;
    case G_TYPE_ENUM:
      *(gint *) field = g_value_get_enum (value);
      break;
    case G_TYPE_STRING:
      g_free (*(char **) field);
      *(char **) field = g_strdup (g_value_get_string (value) != NULL ? g_value_get_string (value)
                                                                      : G_PARAM_SPEC_STRING (pspec)->default_value);
      break;
    case G_TYPE_INTERFACE:
    case G_TYPE_OBJECT:
      g_set_object ((GObject **) field, g_value_get_object (value));
      break;
    default:
      g_assert_not_reached ();
    }
}

static gboolean
is_same (GParamSpec *pspec, const GValue *a, const GValue *b)
{
  /* g_param_values_cmp() takes numbers that are close for the same */
  if (G_VALUE_HOLDS_DOUBLE (a))
    return g_value_get_double (a) == g_value_get_double (b);
  return g_param_values_cmp (pspec, a, b) == 0;
}

static gboolean
is_in_range (GParamSpec *pspec, const GValue *value)
{
  if (G_VALUE_HOLDS_DOUBLE (value) && isnan (g_value_get_double (value)))
    return FALSE;
  GValue copy = G_VALUE_INIT;
  g_value_init (&copy, G_PARAM_SPEC_VALUE_TYPE (pspec));
  g_value_copy (value, &copy);
  gboolean changed = g_param_value_validate (pspec, &copy);
  g_value_unset (&copy);
  return !changed;
}

void
ortrain_field_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  load (object, pspec, value);
}

void
ortrain_field_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  if (!is_in_range (pspec, value))
    {
      g_autofree char *text = g_strdup_value_contents (value);
      g_log (G_LOG_DOMAIN, G_LOG_LEVEL_CRITICAL, "%s cannot be the %s of %s", text, pspec->name,
             G_OBJECT_TYPE_NAME (object));
      return;
    }
  GValue old = G_VALUE_INIT;
  g_value_init (&old, G_PARAM_SPEC_VALUE_TYPE (pspec));
  load (object, pspec, &old);
  gboolean same = is_same (pspec, &old, value);
  g_value_unset (&old);
  if (same)
    return;
  store (object, pspec, value);
  g_object_notify_by_pspec (object, pspec);
}

void
ortrain_field_init_all (gpointer object, GParamSpec *const *properties, guint n_properties)
{
  for (guint i = 1; i < n_properties; i++)
    if ((properties[i]->flags & G_PARAM_WRITABLE) != 0 && address_of (object, properties[i]) != NULL)
      store (object, properties[i], g_param_spec_get_default_value (properties[i]));
}

void
ortrain_field_set_boolean (gpointer object, GParamSpec *pspec, gboolean value)
{
  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_TYPE_BOOLEAN);
  g_value_set_boolean (&holder, !!value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
}

void
ortrain_field_set_uint (gpointer object, GParamSpec *pspec, guint value)
{
  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_TYPE_UINT);
  g_value_set_uint (&holder, value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
}

void
ortrain_field_set_uint64 (gpointer object, GParamSpec *pspec, guint64 value)
{
  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_TYPE_UINT64);
  g_value_set_uint64 (&holder, value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
}

void
ortrain_field_set_double (gpointer object, GParamSpec *pspec, double value)
{
  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_TYPE_DOUBLE);
  g_value_set_double (&holder, value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
}

void
ortrain_field_set_enum (gpointer object, GParamSpec *pspec, gint value)
{
  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_PARAM_SPEC_VALUE_TYPE (pspec));
  g_value_set_enum (&holder, value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
}

void
ortrain_field_set_string (gpointer object, GParamSpec *pspec, const char *value)
{
  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_TYPE_STRING);
  g_value_set_static_string (&holder, value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
}

void
ortrain_field_set_object (gpointer object, GParamSpec *pspec, gpointer value)
{
  g_return_if_fail (value == NULL || G_TYPE_CHECK_INSTANCE_TYPE (value, G_PARAM_SPEC_VALUE_TYPE (pspec)));

  GValue holder = G_VALUE_INIT;
  g_value_init (&holder, G_PARAM_SPEC_VALUE_TYPE (pspec));
  g_value_set_object (&holder, value);
  ortrain_field_set_property (object, pspec->param_id, &holder, pspec);
  g_value_unset (&holder);
}
