/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gradients/ortrain-gradient-check.h"

/* Operators of the update: norms, clipping, numbers that are not finite, loss scales, each rule and its states. */

/* Scalars: the scale of gradients, the step, the greatest norm; eight factors; rate and decay of three parameters. */
#define SCALARS(scale, step, norm, factors) "z[17]{" scale "," step "," norm "," factors ",0.1,0.01,0.2,0,0.3,0.02}"
#define UPDATES(op, states, n, ...)                                                                                    \
  { op, SCALARS ("0.5", "3", "0", __VA_ARGS__) ";_;s{0.25};f[2,3];f[2,3]" states (2, 3) ";f[4];f[4]" states (4),       \
    "parameters=[0,2] states=" #n, 3 + 2 * n, "org.ortrain" },                                                         \
      { op, SCALARS ("1", "1", "0.7", __VA_ARGS__) ";z{2};_;f[2,3];f[2,3]" states (2, 3) ";f[];f[]" states (),         \
        "parameters=[1,0] states=" #n, 3 + 2 * n, "org.ortrain" },                                                     \
      { op,                                                                                                            \
        SCALARS ("1", "2", "0.7", __VA_ARGS__) ";z{inf};_;f[2,3];f[2,3]" states (2, 3) ";d[1]{nan};f[1]" states (1),   \
        "parameters=[1,0] states=" #n, 3 + 2 * n, "org.ortrain" },                                                     \
      { op,                                                                                                            \
        SCALARS ("1", "2", "0", __VA_ARGS__) ";z{inf};_;f[2,3];f[2,3]" states (2, 3) ";d[2]{1,inf};f[2]" states (2),   \
        "parameters=[0,2] states=" #n, 3 + 2 * n, "org.ortrain" },                                                     \
  {                                                                                                                    \
    op,                                                                                                                \
        SCALARS ("1", "2", "0", __VA_ARGS__) ";_;_;f[2,3];d[2,3]{1,nan,2,1,inf,1}" states (2,                          \
                                                                                           3) ";f[2];f[2]" states (2), \
        "parameters=[1,2] states=" #n, 3 + 2 * n, "org.ortrain"                                                        \
  }
#define NO_STATE(...) ""
#define ONE_STATE(...) ";y[" #__VA_ARGS__ "]"
#define TWO_STATES(...) ";y[" #__VA_ARGS__ "];y[" #__VA_ARGS__ "]"

static const OrtrainGradientCase updates[] = {
  { "GradientNorm", SCALARS ("0.5", "3", "1", "0,0,0,0,0,0,0,0") ";_;f[2,3];f[4];f[]", NULL, 1, "org.ortrain" },
  { "GradientNorm", SCALARS ("0.5", "3", "0", "0,0,0,0,0,0,0,0") ";_;f[2,3];f[4]", NULL, 1, "org.ortrain" },
  { "GradientNorm", SCALARS ("0.5", "3", "0", "0,0,0,0,0,0,0,0") ";s{1024};f[2,3];f[4]", NULL, 1, "org.ortrain" },
  UPDATES ("SgdUpdate", NO_STATE, 0, "0,0,0,0,0,0,0,0"),
  UPDATES ("SgdUpdate", ONE_STATE, 1, "0.9,0,0,0,0,0,0,0"),
  UPDATES ("SgdUpdate", ONE_STATE, 1, "0.8,1,0,0,0,0,0,0"),
  UPDATES ("AdamUpdate", TWO_STATES, 2, "0,0.9,0.99,1e-4,1,0,0,0"),
  UPDATES ("AdamUpdate", TWO_STATES, 2, "1,0.8,0.9,1e-4,1,0,0,0"),
  UPDATES ("AdamUpdate", TWO_STATES, 2, "2,0.8,0.9,1e-4,1,0,0,0"),
  UPDATES ("AdamUpdate", TWO_STATES, 2, "1,0.8,0.9,1e-4,0,0,0,0"),
  UPDATES ("LambUpdate", TWO_STATES, 2, "0.8,0.9,1e-4,1,0,10,0,0"),
  UPDATES ("LambUpdate", TWO_STATES, 2, "0.8,0.9,1e-4,0,0.5,0.6,0,0"),
  UPDATES ("AdagradUpdate", ONE_STATE, 1, "1e-4,0.1,0,0,0,0,0,0"),
  { "LambUpdate", SCALARS ("1", "1", "0", "0.8,0.9,1e-4,1,0,10,0,0") ";_;_;d[2]{0,0};f[2];y[2];y[2]",
    "parameters=[0] states=2", 4, "org.ortrain" },
  { "SgdUpdate", SCALARS ("1", "2", "0", "0,0,0,0,0,0,0,0") ";z{nan};s{2};f[2,3];f[2,3];f[2];f[2]",
    "parameters=[0,2] states=0", 3, "org.ortrain" },
  { "SgdUpdate", SCALARS ("1", "2", "1", "0,0,0,0,0,0,0,0") ";z{4};s{8};f[2,3];f[2,3];f[2];f[2]",
    "parameters=[0,2] states=0", 3, "org.ortrain" },
  { "SgdUpdate", SCALARS ("1", "2", "0", "0,0,0,0,0,0,0,0") ";z{inf};s{2};s[2]{0.1,3};s[2]{1,2};s[1]{1};s[1]{2}",
    "parameters=[0,2] states=0 copies=[10,16]", 5, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{3};I{1};z{inf};I{1}", "growth_interval=5 hysteresis=3", 4, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{3};I{1};z{inf};I{2}", "growth_interval=5 hysteresis=3", 4, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{4};I{1};z{2};I{2}", "growth_interval=5 hysteresis=3", 4, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{2};I{1};z{2};I{2}", "growth_interval=5 hysteresis=3", 4, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{3};I{1};z{2}", "growth_interval=5 growth_factor=4f", 3, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{4};I{1};z{2}", "growth_interval=5 growth_factor=1.7f", 3, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{4};I{1};z{2}", "growth_interval=5 maximum=700f", 3, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{4};I{1};z{inf}", "growth_interval=5 backoff_factor=0.3f", 3, "org.ortrain" },
  { "LossScaleUpdate", "s{512};I{4};I{1};z{nan}", "growth_interval=5 minimum=300f", 3, "org.ortrain" },
};
