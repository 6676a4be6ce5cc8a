/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

/* Options given as text. Values are checked against the properties' own types and ranges, so that a new property needs
 * nothing here. Errors are SESSION_ERROR_OPTION, and leave the object as it was. */

gboolean ortrain_option_set_from_text (GObject *object, const char *property, const char *text, GError **error);
/* A value of the property's type; one that the property would silently bend is refused. */
gboolean ortrain_option_set_checked (GObject *object, GParamSpec *pspec, const GValue *value, GError **error);
/* By nick; the words of a switch stand for the nicks `on` and `off`. FALSE if no value has that nick. */
gboolean ortrain_option_enum_from_text (GParamSpec *pspec, const char *text, GValue *value);

/* Sets an error that names the type of the option, and this text, or piece of JSON, which is not of that type. */
void ortrain_option_refuse (GParamSpec *pspec, const char *text, GError **error);

typedef struct
{
  const char *name, *property;
} OrtrainOptionVariable;

/* Takes properties from variables of the environment, those that are there. */
void ortrain_options_read_environment (GObject *object, const OrtrainOptionVariable *variables, guint n);
