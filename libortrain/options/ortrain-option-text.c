/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-option-text-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>
#include <string.h>

/* "a whole number from 0 to 1024" */
static char *
describe_type (GParamSpec *pspec)
{
  if (G_IS_PARAM_SPEC_ENUM (pspec))
    {
      const GEnumClass *klass = G_PARAM_SPEC_ENUM (pspec)->enum_class;
      GString *words = g_string_new ("one of");
      for (guint i = 0; i < klass->n_values; i++)
        g_string_append_printf (words, "%s %s", i > 0 ? "," : "", klass->values[i].value_nick);
      return g_string_free (words, FALSE);
    }
  if (pspec->value_type == G_TYPE_STRV)
    return g_strdup ("an array of texts");
  switch (pspec->value_type)
    {
    case G_TYPE_BOOLEAN:
      return g_strdup ("true or false");
    case G_TYPE_STRING:
      return g_strdup ("a text");
    case G_TYPE_INT:
      return g_strdup_printf ("a whole number from %d to %d", G_PARAM_SPEC_INT (pspec)->minimum,
                              G_PARAM_SPEC_INT (pspec)->maximum);
    case G_TYPE_UINT:
      return g_strdup_printf ("a whole number from %u to %u", G_PARAM_SPEC_UINT (pspec)->minimum,
                              G_PARAM_SPEC_UINT (pspec)->maximum);
    case G_TYPE_INT64:
      return g_strdup ("a whole number");
    case G_TYPE_UINT64:
      return g_strdup (pspec->flags & ORTRAIN_FIELD_BYTES ? "a number of bytes, such as 1.5GiB"
                                                          : "a whole number of at least 0");
    case G_TYPE_DOUBLE:
      return g_strdup ("a number");
    default:
      return g_strdup_printf ("%s %s", strchr ("AEIOU", g_type_name (pspec->value_type)[7]) != NULL ? "an" : "a",
                              g_type_name (pspec->value_type) + strlen ("Ortrain"));
    }
}

void
ortrain_option_refuse (GParamSpec *pspec, const char *text, GError **error)
{
  g_autofree char *wanted = describe_type (pspec);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "Option '%s' is %s, not %s", pspec->name,
               wanted, ortrain_text_show (text));
}

gboolean
ortrain_option_set_checked (GObject *object, GParamSpec *pspec, const GValue *value, GError **error)
{
  g_auto (GValue) copy = G_VALUE_INIT;
  g_value_init (&copy, G_VALUE_TYPE (value));
  g_value_copy (value, &copy);
  if (g_param_value_validate (pspec, &copy))
    {
      g_autofree char *text = g_strdup_value_contents (value), *wanted = describe_type (pspec);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "Option '%s': %s is out of range; it is %s", pspec->name, ortrain_text_show (text), wanted);
      return FALSE;
    }
  g_object_set_property (object, pspec->name, value);
  return TRUE;
}

static gboolean
read_switch (const char *text, gboolean *on)
{
  static const char *const yes[] = { "1", "true", "yes", "on", NULL }, *const no[] = { "0", "false", "no", "off",
                                                                                       NULL };
  g_autofree char *lower = g_ascii_strdown (text, -1);
  *on = g_strv_contains (yes, lower);
  return *on || g_strv_contains (no, lower);
}

gboolean
ortrain_option_enum_from_text (GParamSpec *pspec, const char *text, GValue *value)
{
  GEnumClass *klass = G_PARAM_SPEC_ENUM (pspec)->enum_class;
  const GEnumValue *found = g_enum_get_value_by_nick (klass, text);
  gboolean on;
  if (found == NULL && read_switch (text, &on))
    found = g_enum_get_value_by_nick (klass, on ? "on" : "off");
  if (found == NULL)
    return FALSE;
  g_value_set_enum (value, found->value);
  return TRUE;
}

gboolean
ortrain_option_set_from_text (GObject *object, const char *property, const char *text, GError **error)
{
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (object), property);
  g_auto (GValue) value = G_VALUE_INIT;
  gboolean ok = FALSE;
  if (pspec == NULL || !(pspec->flags & G_PARAM_WRITABLE))
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "%s has no option '%s'",
                   ortrain_text_name_class (object), property);
      return FALSE;
    }
  g_value_init (&value, pspec->value_type);
  char *end = NULL;
  gint64 integer;
  guint64 natural;
  switch (pspec->value_type)
    {
    case G_TYPE_BOOLEAN:
      {
        gboolean on;
        ok = read_switch (text, &on);
        g_value_set_boolean (&value, on);
      }
      break;
    case G_TYPE_INT:
      ok = g_ascii_string_to_signed (text, 10, G_MININT, G_MAXINT, &integer, NULL);
      if (ok)
        g_value_set_int (&value, (int) integer);
      break;
    case G_TYPE_INT64:
      ok = g_ascii_string_to_signed (text, 10, G_MININT64, G_MAXINT64, &integer, NULL);
      if (ok)
        g_value_set_int64 (&value, integer);
      break;
    case G_TYPE_UINT:
      ok = g_ascii_string_to_unsigned (text, 10, 0, G_MAXUINT, &natural, NULL);
      if (ok)
        g_value_set_uint (&value, (guint) natural);
      break;
    case G_TYPE_UINT64:
      if (pspec->flags & ORTRAIN_FIELD_BYTES)
        {
          g_autoptr (GError) local_error = NULL;
          natural = ortrain_parse_bytes (text, &local_error);
          ok = local_error == NULL;
        }
      else
        ok = g_ascii_string_to_unsigned (text, 10, 0, G_MAXUINT64, &natural, NULL);
      if (ok)
        g_value_set_uint64 (&value, natural);
      break;
    case G_TYPE_DOUBLE:
      {
        double number = g_ascii_strtod (text, &end);
        ok = end != text && *end == '\0' && isfinite (number);
        g_value_set_double (&value, number);
      }
      break;
    case G_TYPE_STRING:
      ok = TRUE;
      g_value_set_string (&value, text);
      break;
    default:
      if (G_IS_PARAM_SPEC_ENUM (pspec))
        ok = ortrain_option_enum_from_text (pspec, text, &value);
      else if (pspec->value_type == G_TYPE_STRV) /* patterns; an empty text: none */
        {
          ok = TRUE;
          g_value_take_boxed (&value, *text != '\0' ? g_strsplit (text, ",", -1) : NULL);
        }
      break;
    }
  if (!ok)
    {
      ortrain_option_refuse (pspec, text, error);
      return FALSE;
    }
  return ortrain_option_set_checked (object, pspec, &value, error);
}

/* A value that cannot be parsed is reported in a message, and ignored. */
void
ortrain_options_read_environment (GObject *object, const OrtrainOptionVariable *variables, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const char *text = g_getenv (variables[i].name);
      g_autoptr (GError) error = NULL;
      if (text != NULL && *text != '\0' && !ortrain_option_set_from_text (object, variables[i].property, text, &error))
        g_message ("The environment variable %s is ignored: %s", variables[i].name, error->message);
    }
}
