/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_PARAMETER_PAIR (ortrain_parameter_pair_get_type ())

  typedef struct _OrtrainParameterPair OrtrainParameterPair;

  ORTRAIN_AVAILABLE_IN_ALL
  GType ortrain_parameter_pair_get_type (void) G_GNUC_CONST;
  ORTRAIN_AVAILABLE_IN_ALL
  OrtrainParameterPair *ortrain_parameter_pair_copy (OrtrainParameterPair * self);
  ORTRAIN_AVAILABLE_IN_ALL
  void ortrain_parameter_pair_free (OrtrainParameterPair * self);
  ORTRAIN_AVAILABLE_IN_ALL
  const char *ortrain_parameter_pair_get_first (OrtrainParameterPair * self);
  ORTRAIN_AVAILABLE_IN_ALL
  const char *ortrain_parameter_pair_get_second (OrtrainParameterPair * self);
  ORTRAIN_AVAILABLE_IN_ALL
  gboolean ortrain_parameter_pair_get_transposed (OrtrainParameterPair * self);

  G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainParameterPair, ortrain_parameter_pair_free)

G_END_DECLS
