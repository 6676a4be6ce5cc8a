/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-function-private.h"

#include <math.h>

/* The update formulas of the optimizers, one element at a time, for float and double. Everything that is the same for
 * all elements of a step (bias corrections, step sizes) is computed once, in double, into a struct of coefficients; the
 * inline functions are then plain arithmetic that vectorises. w: weight, g: gradient, m and v: first and second moment.
 *
 * grad_scale multiplies the gradient first: unscaling, clipping and averaging over micro-batches in one factor.
 *
 * An infinite weight (a mask that is a weight, a row of scores that is never chosen) stays as it is where its gradient
 * is finite: in the terms of decay and in norms it counts as 0. */
/* A coefficient to the power of a number of steps. A device may have its own. */
#ifndef ORTRAIN_POW
#define ORTRAIN_POW(x, y) pow ((x), (y))
#endif

/* ---- SGD with momentum ----
 * g' = grad_scale*g + l2*w;  v' = momentum*v + damped*g';  w' = w - lr*(nesterov ? g' + momentum*v' : v')
 * damped is 1 in the first step (t = 1 for PyTorch's counting), 1 - dampening later. Without momentum: w' = w - lr*g'.
 */
typedef struct
{
  double lr, grad_scale, l2, momentum, damped;
  int nesterov;
} OrtrainSgdMath;

/* ---- Adam and AdamW ----
 * g' = grad_scale*g + l2*w;  m' = beta1*m + (1-beta1)*g';  v' = beta2*v + (1-beta2)*g'^2
 * w' = (decay_before*w - step_size*m' / (sqrt (v')*inv_sqrt_correction2 + epsilon)) * decay_after */
typedef struct
{
  double grad_scale, l2, beta1, beta2, step_size, inv_sqrt_correction2, epsilon, decay_before, decay_after;
} OrtrainAdamMath;

typedef enum
{
  ORTRAIN_ADAM_L2,           /* the decay is added to the gradient: Adam */
  ORTRAIN_ADAMW_DECAY_FIRST, /* w is decayed, then moved; epsilon is added to the corrected root (PyTorch's AdamW) */
  ORTRAIN_ADAMW_DECAY_LAST,  /* w is moved, then decayed; epsilon is added to the raw root (Hugging Face's AdamW) */
} OrtrainAdamMode;

/* step counts from 1. Without bias correction the corrections are 1. */
ORTRAIN_FUNCTION OrtrainAdamMath
ortrain_adam_math (OrtrainAdamMode mode, double lr, double beta1, double beta2, double epsilon, double weight_decay,
                   int correct_bias, double step, double grad_scale)
{
  double correction1 = correct_bias ? 1.0 - ORTRAIN_POW (beta1, step) : 1.0;
  double correction2 = correct_bias ? 1.0 - ORTRAIN_POW (beta2, step) : 1.0;
  OrtrainAdamMath c;
  c.grad_scale = grad_scale;
  c.l2 = mode == ORTRAIN_ADAM_L2 ? weight_decay : 0.0;
  c.beta1 = beta1;
  c.beta2 = beta2;
  c.epsilon = epsilon;
  c.decay_before = mode == ORTRAIN_ADAMW_DECAY_FIRST ? 1.0 - lr * weight_decay : 1.0;
  c.decay_after = mode == ORTRAIN_ADAMW_DECAY_LAST ? 1.0 - lr * weight_decay : 1.0;
  if (mode == ORTRAIN_ADAMW_DECAY_LAST)
    {
      c.step_size = lr * sqrt (correction2) / correction1;
      c.inv_sqrt_correction2 = 1.0;
    }
  else
    {
      c.step_size = lr / correction1;
      c.inv_sqrt_correction2 = 1.0 / sqrt (correction2);
    }
  return c;
}

/* ONNX's Adam (ai.onnx.preview.training): epsilon added to the raw root, L2 before, a factor after; step 0: no
 * correction. */
ORTRAIN_FUNCTION OrtrainAdamMath
ortrain_adam_math_onnx (double lr, double step, double alpha, double beta, double epsilon, double norm_coefficient,
                        double norm_coefficient_post)
{
  OrtrainAdamMath c;
  c.grad_scale = 1.0;
  c.l2 = norm_coefficient;
  c.beta1 = alpha;
  c.beta2 = beta;
  c.epsilon = epsilon;
  c.step_size = step > 0 ? lr * sqrt (1.0 - ORTRAIN_POW (beta, step)) / (1.0 - ORTRAIN_POW (alpha, step)) : lr;
  c.inv_sqrt_correction2 = 1.0;
  c.decay_before = 1.0;
  c.decay_after = 1.0 - norm_coefficient_post;
  return c;
}

/* ---- LAMB, in two passes over a tensor ----
 * 1. d = weight_decay*w + m'*inv_correction1 / (sqrt (v'*inv_correction2) + epsilon), and the sums of w^2 and d^2; a d
 * that is not finite becomes 0 and leaves the moments as they were.
 * 2. w' = w - ratio*d, kept at w when that is not finite. */
typedef struct
{
  double lr, grad_scale, beta1, beta2, epsilon, weight_decay, inv_correction1, inv_correction2, ratio_min, ratio_max;
} OrtrainLambMath;

ORTRAIN_FUNCTION OrtrainLambMath
ortrain_lamb_math (double lr, double beta1, double beta2, double epsilon, double weight_decay, double ratio_min,
                   double ratio_max, int correct_bias, double step, double grad_scale)
{
  OrtrainLambMath c;
  c.lr = lr;
  c.grad_scale = grad_scale;
  c.beta1 = beta1;
  c.beta2 = beta2;
  c.epsilon = epsilon;
  c.weight_decay = weight_decay;
  c.inv_correction1 = correct_bias ? 1.0 / (1.0 - ORTRAIN_POW (beta1, step)) : 1.0;
  c.inv_correction2 = correct_bias ? 1.0 / (1.0 - ORTRAIN_POW (beta2, step)) : 1.0;
  c.ratio_min = ratio_min;
  c.ratio_max = ratio_max;
  return c;
}

ORTRAIN_FUNCTION double
ortrain_lamb_ratio (const OrtrainLambMath *c, double sum_w2, double sum_d2)
{
  if (!(sum_w2 > 0.0) || !(sum_d2 > 0.0))
    return c->lr;
  double trust = sqrt (sum_w2 / sum_d2);
  if (trust < c->ratio_min)
    trust = c->ratio_min;
  if (trust > c->ratio_max)
    trust = c->ratio_max;
  return c->lr * trust;
}

/* ---- Adagrad ----
 * g' = grad_scale*g + l2*w;  h' = h + g'^2;  w' = w - lr*g' / (sqrt (h') + epsilon)
 * with lr already divided by (1 + (step - first)*lr_decay). */
typedef struct
{
  double lr, grad_scale, l2, epsilon;
} OrtrainAdagradMath;

/* NAME is the suffix, T the type, SQRT its root. */
#define ORTRAIN_OPTIMIZER_MATH(NAME, T, SQRT)                                                                          \
  ORTRAIN_FUNCTION T ortrain_decaying_##NAME (T w)                                                                     \
  {                                                                                                                    \
    return w - w == 0 ? w : 0;                                                                                         \
  }                                                                                                                    \
  ORTRAIN_FUNCTION void ortrain_sgd_element_##NAME (const OrtrainSgdMath *c, T *w, T g)                                \
  {                                                                                                                    \
    *w -= (T) c->lr * ((T) c->grad_scale * g + (T) c->l2 * ortrain_decaying_##NAME (*w));                              \
  }                                                                                                                    \
  ORTRAIN_FUNCTION void ortrain_momentum_element_##NAME (const OrtrainSgdMath *c, T *w, T g, T *v)                     \
  {                                                                                                                    \
    T e = (T) c->grad_scale * g + (T) c->l2 * ortrain_decaying_##NAME (*w);                                            \
    T next = (T) c->momentum * *v + (T) c->damped * e;                                                                 \
    *v = next;                                                                                                         \
    *w -= (T) c->lr * (c->nesterov ? e + (T) c->momentum * next : next);                                               \
  }                                                                                                                    \
  ORTRAIN_FUNCTION void ortrain_adam_element_##NAME (const OrtrainAdamMath *c, T *w, T g, T *m, T *v)                  \
  {                                                                                                                    \
    T e = (T) c->grad_scale * g + (T) c->l2 * ortrain_decaying_##NAME (*w);                                            \
    T m1 = (T) c->beta1 * *m + (T) (1.0 - c->beta1) * e;                                                               \
    T v1 = (T) c->beta2 * *v + (T) (1.0 - c->beta2) * e * e;                                                           \
    *m = m1;                                                                                                           \
    *v = v1;                                                                                                           \
    *w = ((T) c->decay_before * *w -                                                                                   \
          (T) c->step_size * m1 / (SQRT (v1) * (T) c->inv_sqrt_correction2 + (T) c->epsilon)) *                        \
         (T) c->decay_after;                                                                                           \
  }                                                                                                                    \
  ORTRAIN_FUNCTION T ortrain_lamb_direction_##NAME (const OrtrainLambMath *c, T w, T g, T *m, T *v)                    \
  {                                                                                                                    \
    T e = (T) c->grad_scale * g;                                                                                       \
    T m1 = (T) c->beta1 * *m + (T) (1.0 - c->beta1) * e;                                                               \
    T v1 = (T) c->beta2 * *v + (T) (1.0 - c->beta2) * e * e;                                                           \
    T d = (T) c->weight_decay * ortrain_decaying_##NAME (w) +                                                          \
          m1 * (T) c->inv_correction1 / (SQRT (v1 * (T) c->inv_correction2) + (T) c->epsilon);                         \
    int finite = d - d == 0;                                                                                           \
    *m = finite ? m1 : *m;                                                                                             \
    *v = finite ? v1 : *v;                                                                                             \
    return finite ? d : 0;                                                                                             \
  }                                                                                                                    \
  ORTRAIN_FUNCTION void ortrain_lamb_element_##NAME (T ratio, T *w, T d)                                               \
  {                                                                                                                    \
    T next = *w - ratio * d;                                                                                           \
    *w = next - next == 0 ? next : *w;                                                                                 \
  }                                                                                                                    \
  ORTRAIN_FUNCTION void ortrain_adagrad_element_##NAME (const OrtrainAdagradMath *c, T *w, T g, T *h)                  \
  {                                                                                                                    \
    T e = (T) c->grad_scale * g + (T) c->l2 * ortrain_decaying_##NAME (*w);                                            \
    T h1 = *h + e * e;                                                                                                 \
    *h = h1;                                                                                                           \
    *w -= (T) c->lr * e / (SQRT (h1) + (T) c->epsilon);                                                                \
  }

ORTRAIN_OPTIMIZER_MATH (f32, float, sqrtf)
ORTRAIN_OPTIMIZER_MATH (f64, double, sqrt)
#undef ORTRAIN_OPTIMIZER_MATH
