/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-uncertain-parameters-private.h"

#include "core/ortrain-text-private.h"

#define MAX_OPTIONS 2000 /* bytes; `ortrain info --parameters` lists all */

void
ortrain_uncertain_parameters_init (OrtrainUncertainParameters *self)
{
  *self = (OrtrainUncertainParameters){ .trained = g_string_new (NULL),
                                        .untrained = g_string_new (NULL),
                                        .frozen_options = g_string_new (NULL),
                                        .trainable_options = g_string_new (NULL) };
}

void
ortrain_uncertain_parameters_clear (OrtrainUncertainParameters *self)
{
  g_string_free (self->trained, TRUE);
  g_string_free (self->untrained, TRUE);
  g_string_free (self->frozen_options, TRUE);
  g_string_free (self->trainable_options, TRUE);
}

void
ortrain_uncertain_parameters_add (OrtrainUncertainParameters *self, const OrtrainParameterRole *role,
                                  gboolean is_trained)
{
  if (!role->is_uncertain)
    return;
  GString *names = is_trained ? self->trained : self->untrained,
          *options = is_trained ? self->frozen_options : self->trainable_options;
  const char *name = ortrain_text_show (role->value->name);
  guint *n = is_trained ? &self->n_trained : &self->n_untrained;
  if (options->len < MAX_OPTIONS)
    {
      g_autofree char *quoted = g_shell_quote (name);
      g_string_append_printf (names, "%s'%s'", *n > 0 ? ", " : "", name);
      if (*n == 0)
        g_string_append_printf (names, " (%s)", role->reason);
      g_string_append_printf (options, "%s--%s %s", options->len > 0 || !is_trained ? " " : "",
                              is_trained ? "frozen" : "trainable", quoted);
    }
  (*n)++;
}

static void
add_note (const GString *names, guint n, const char *state_of_one, const char *state, const char *first,
          const GString *options, GStrvBuilder *notes)
{
  if (n == 0)
    return;
  g_autofree char *note =
      g_strdup_printf ("the file does not settle whether these are parameters; %u %s: %s. For the other choice: %s%s%s",
                       n, n == 1 ? state_of_one : state, ortrain_text_show_list (names->str), first, options->str,
                       options->len >= MAX_OPTIONS ? " …" : "");
  g_strv_builder_add (notes, note);
}

void
ortrain_uncertain_parameters_add_notes (const OrtrainUncertainParameters *self, GStrvBuilder *notes)
{
  add_note (self->trained, self->n_trained, "is trained", "are trained", "", self->frozen_options, notes);
  add_note (self->untrained, self->n_untrained, "is not trained", "are not trained", "--trainable '*'",
            self->trainable_options, notes);
}
