/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

/* Properties that are nothing but a field of the object's struct. The GParamSpec is the whole description: name, type,
 * range, default, and, added here, where the field is. The rest follows from it: the two property functions of a class,
 * the values that a new object begins with, and setters that refuse values out of range and notify changes.
 *
 *   properties[PROP_RATE] = ortrain_field_double ("rate", G_STRUCT_OFFSET (OrtrainThing, rate), 0.0, 1.0, 0.5);
 *
 * Strings and objects are owned by the field; the class frees them when it is finalized. */

/* Any specification, also of a property that is only read. */
GParamSpec *ortrain_field_at (GParamSpec *pspec, gsize offset);
GParamSpec *ortrain_field_boolean (const char *name, gsize offset, gboolean initial);
GParamSpec *ortrain_field_uint (const char *name, gsize offset, guint minimum, guint maximum, guint initial);
GParamSpec *ortrain_field_uint64 (const char *name, gsize offset, guint64 minimum, guint64 maximum, guint64 initial);
/* A number of bytes from 0 on, 0 by default; as text it may have a unit. */
#define ORTRAIN_FIELD_BYTES (1 << G_PARAM_USER_SHIFT)
GParamSpec *ortrain_field_bytes (const char *name, gsize offset);
GParamSpec *ortrain_field_double (const char *name, gsize offset, double minimum, double maximum, double initial);
GParamSpec *ortrain_field_enum (const char *name, gsize offset, GType type, gint initial);
GParamSpec *ortrain_field_string (const char *name, gsize offset); /* default: NULL */
GParamSpec *ortrain_field_string_with_default (const char *name, gsize offset, const char *initial);
GParamSpec *ortrain_field_object (const char *name, gsize offset, GType type);

/* For the class. */
void ortrain_field_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec);
void ortrain_field_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec);

/* For a new object: the defaults of writable properties. properties[0] is not used. */
void ortrain_field_init_all (gpointer object, GParamSpec *const *properties, guint n_properties);

/* For setters. A value out of range is a programmer's error, and changes nothing. */
void ortrain_field_set_boolean (gpointer object, GParamSpec *pspec, gboolean value);
void ortrain_field_set_uint (gpointer object, GParamSpec *pspec, guint value);
void ortrain_field_set_uint64 (gpointer object, GParamSpec *pspec, guint64 value);
void ortrain_field_set_double (gpointer object, GParamSpec *pspec, double value);
void ortrain_field_set_enum (gpointer object, GParamSpec *pspec, gint value);
void ortrain_field_set_string (gpointer object, GParamSpec *pspec, const char *value);
void ortrain_field_set_object (gpointer object, GParamSpec *pspec, gpointer value);
