/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* No guard: included once per floating type, with
 *   ORTRAIN_REAL     the type
 *   ORTRAIN_REAL_FN  (name) the type's own function: exp, log, tanh, erf, sigmoid, softplus, expm1, fabs
 *   ORTRAIN_REAL_C   (number) a constant of the type
 * Activation formulas and their derivatives, in one expression each, free of branches. y is the function's own result:
 * where the derivative can be had from it, it is, since y lives on as the next operator's input anyway. */

#define R ORTRAIN_REAL
#define F ORTRAIN_REAL_FN
#define K ORTRAIN_REAL_C

ORTRAIN_FUNCTION R
F (relu) (R x)
{
  return K (0.0) > x ? K (0.0) : x; /* a NaN stays */
}

ORTRAIN_FUNCTION R
F (relu_grad) (R dy, R y)
{
  return y > K (0.0) ? dy : K (0.0);
}

ORTRAIN_FUNCTION R
F (leaky_relu) (R x, R alpha)
{
  R z = x * alpha;
  return x < K (0.0) ? z : x;
}

ORTRAIN_FUNCTION R
F (leaky_relu_grad) (R dy, R x, R alpha)
{
  R z = dy * alpha;
  return x < K (0.0) ? z : dy;
}

ORTRAIN_FUNCTION R
F (thresholded_relu) (R x, R alpha)
{
  return x <= alpha ? K (0.0) : x;
}

ORTRAIN_FUNCTION R
F (elu) (R x, R alpha)
{
  R z = alpha * F (expm1) (x);
  return x < K (0.0) ? z : x;
}

ORTRAIN_FUNCTION R
F (elu_grad) (R dy, R y, R alpha)
{
  R z = dy * (y + alpha);
  return y > K (0.0) ? dy : z;
}

ORTRAIN_FUNCTION R
F (selu) (R x, R alpha, R gamma)
{
  R z = gamma * (alpha * F (expm1) (x));
  R p = gamma * x;
  return x > K (0.0) ? p : z;
}

ORTRAIN_FUNCTION R
F (selu_grad) (R dy, R y, R alpha, R gamma)
{
  R z = dy * (y + gamma * alpha);
  R p = dy * gamma;
  return y > K (0.0) ? p : z;
}

ORTRAIN_FUNCTION R
F (celu) (R x, R alpha)
{
  R z = alpha * F (expm1) (x / alpha);
  return x < K (0.0) ? z : x;
}

ORTRAIN_FUNCTION R
F (celu_grad) (R dy, R y, R alpha)
{
  R z = dy * (y / alpha + K (1.0));
  return y > K (0.0) ? dy : z;
}

ORTRAIN_FUNCTION R
F (sigmoid_grad) (R dy, R y)
{
  return dy * (y * (K (1.0) - y));
}

ORTRAIN_FUNCTION R
F (tanh_grad) (R dy, R y)
{
  return dy * (K (1.0) - y * y);
}

ORTRAIN_FUNCTION R
F (hard_sigmoid) (R x, R alpha, R beta)
{
  R z = alpha * x + beta;
  z = z < K (0.0) ? K (0.0) : z;
  return z > K (1.0) ? K (1.0) : z;
}

ORTRAIN_FUNCTION R
F (hard_sigmoid_grad) (R dy, R y, R alpha)
{
  R z = dy * alpha;
  return y > K (0.0) ? (y < K (1.0) ? z : K (0.0)) : K (0.0);
}

ORTRAIN_FUNCTION R
F (hard_swish) (R x)
{
  return x * F (hard_sigmoid) (x, K (1.0) / K (6.0), K (0.5));
}

ORTRAIN_FUNCTION R
F (hard_swish_grad) (R dy, R x)
{
  R z = dy * (x / K (3.0) + K (0.5));
  z = x >= K (3.0) ? dy : z;
  return x <= K (-3.0) ? K (0.0) : z;
}

ORTRAIN_FUNCTION R
F (softplus_grad) (R dy, R x)
{
  return dy * F (sigmoid) (x);
}

ORTRAIN_FUNCTION R
F (softsign) (R x)
{
  return x / (K (1.0) + F (fabs) (x));
}

ORTRAIN_FUNCTION R
F (softsign_grad) (R dy, R x)
{
  R d = K (1.0) + F (fabs) (x);
  return dy / (d * d);
}

ORTRAIN_FUNCTION R
F (erf_grad) (R dy, R x)
{
  return dy * (K (1.1283791670955125739) * F (exp) (-(x * x)));
}

ORTRAIN_FUNCTION R
F (gelu) (R x)
{
  return K (0.5) * x * (K (1.0) + F (erf) (x * K (0.70710678118654752440)));
}

ORTRAIN_FUNCTION R
F (gelu_grad) (R dy, R x)
{
  R cdf = K (0.5) * (K (1.0) + F (erf) (x * K (0.70710678118654752440)));
  R pdf = K (0.39894228040143267794) * F (exp) (K (-0.5) * x * x);
  return dy * (cdf + x * pdf);
}

ORTRAIN_FUNCTION R
F (gelu_tanh) (R x)
{
  R u = K (0.79788456080286535588) * (x + K (0.044715) * (x * x * x));
  return K (0.5) * x * (K (1.0) + F (tanh) (u));
}

ORTRAIN_FUNCTION R
F (gelu_tanh_grad) (R dy, R x)
{
  R s = x * x;
  R u = K (0.79788456080286535588) * (x + K (0.044715) * (s * x));
  R du = K (0.79788456080286535588) * (K (1.0) + K (0.134145) * s);
  R t = F (tanh) (u);
  return dy * (K (0.5) * (K (1.0) + t) + K (0.5) * x * ((K (1.0) - t * t) * du));
}

/* tanh (softplus (x)) without a logarithm: with e = e^x it is (e² + 2e) / (e² + 2e + 2) */
ORTRAIN_FUNCTION R
F (mish_factor) (R x)
{
  R e = F (exp) (x > K (20.0) ? K (20.0) : x);
  R n = e * (e + K (2.0));
  R w = n / (n + K (2.0));
  return x > K (20.0) ? K (1.0) : w;
}

ORTRAIN_FUNCTION R
F (mish) (R x)
{
  return x * F (mish_factor) (x);
}

ORTRAIN_FUNCTION R
F (mish_grad) (R dy, R x)
{
  R w = F (mish_factor) (x);
  return dy * (w + x * (F (sigmoid) (x) * (K (1.0) - w * w)));
}

ORTRAIN_FUNCTION R
F (swish) (R x, R alpha)
{
  return x * F (sigmoid) (alpha * x);
}

ORTRAIN_FUNCTION R
F (swish_grad) (R dy, R x, R alpha)
{
  R s = F (sigmoid) (alpha * x);
  return dy * (s + (alpha * x) * (s * (K (1.0) - s)));
}

ORTRAIN_FUNCTION R
F (shrink) (R x, R lambd, R bias)
{
  R y = x > lambd ? x - bias : K (0.0);
  return x < -lambd ? x + bias : y;
}

#undef R
#undef F
#undef K
