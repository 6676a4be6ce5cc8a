/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* A list model that any number of threads may read at the same time while nothing is added to it. Of a GListStore that
 * is not true: reading it writes to a cache. */
#define ORTRAIN_TYPE_OBJECT_LIST (ortrain_object_list_get_type ())
G_DECLARE_FINAL_TYPE (OrtrainObjectList, ortrain_object_list, ORTRAIN, OBJECT_LIST, GObject)

OrtrainObjectList *ortrain_object_list_new (GType item_type);
/* Takes a reference. */
void ortrain_object_list_append (OrtrainObjectList *self, gpointer item);
void ortrain_object_list_remove_all (OrtrainObjectList *self);

/* A list model of an array that its owner changes; the owner calls refresh after a change. */
OrtrainObjectList *ortrain_object_list_new_over (GType item_type, GPtrArray *items);
void ortrain_object_list_refresh (OrtrainObjectList *self);

G_END_DECLS
