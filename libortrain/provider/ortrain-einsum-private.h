/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* The equation of an Einsum, read by its row (shapes) and by its kernels (strides). Labels are small numbers; the
 * dimensions behind an ellipsis get labels of their own, aligned at their ends. */
#define ORTRAIN_EINSUM_MAX_OPERANDS 8
#define ORTRAIN_EINSUM_MAX_LABELS (52 + ORTRAIN_MAX_RANK)

typedef struct
{
  guint rank;
  guint8 labels[ORTRAIN_MAX_RANK]; /* of each dimension */
} OrtrainEinsumTerm;

typedef struct
{
  guint n_operands, n_labels; /* labels are 0 … n_labels - 1 */
  OrtrainEinsumTerm operands[ORTRAIN_EINSUM_MAX_OPERANDS];
  OrtrainEinsumTerm output;
  gboolean has_ellipsis, has_repeats; /* repeats: a label twice in one operand */
} OrtrainEinsum;

static inline gint
ortrain_einsum_letter (char c)
{
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* ranks NULL: by the letters alone, which an ellipsis does not allow. FALSE: the equation is malformed or does not fit.
 */
static inline gboolean
ortrain_einsum_parse (const char *equation, guint n_operands, const gint *ranks, OrtrainEinsum *e)
{
  char terms[ORTRAIN_EINSUM_MAX_OPERANDS + 1][64], output[64] = "";
  guint n = 0, at = 0, count[52] = { 0 };
  gint ellipsis_rank = 0, number[52];
  gboolean arrow = FALSE;

  memset (e, 0, sizeof *e);
  memset (terms, 0, sizeof terms);
  if (n_operands < 1 || n_operands > ORTRAIN_EINSUM_MAX_OPERANDS)
    return FALSE;
  for (const char *p = equation; *p != '\0'; p++)
    {
      if (*p == ' ')
        continue;
      if (p[0] == '-' && p[1] == '>')
        {
          if (arrow)
            return FALSE;
          arrow = TRUE;
          at = 0;
          p++;
        }
      else if (*p == ',' && !arrow)
        {
          if (++n >= n_operands)
            return FALSE;
          at = 0;
        }
      else if (*p == '.')
        {
          if (p[1] != '.' || p[2] != '.' || at >= 60)
            return FALSE;
          (arrow ? output : terms[n])[at++] = '.';
          e->has_ellipsis = TRUE;
          p += 2;
        }
      else if (ortrain_einsum_letter (*p) >= 0 && at < 60)
        (arrow ? output : terms[n])[at++] = *p;
      else
        return FALSE;
    }
  if (n + 1 != n_operands)
    return FALSE;
  e->n_operands = n_operands;

  /* how many dimensions the longest ellipsis stands for */
  for (guint i = 0; i < n_operands; i++)
    {
      gint letters = 0, dots = 0;
      for (const char *p = terms[i]; *p != '\0'; p++)
        if (*p == '.')
          dots++;
        else
          {
            letters++;
            count[ortrain_einsum_letter (*p)]++;
          }
      gint rank = ranks != NULL ? ranks[i] : letters;
      if (dots > 1 || (dots > 0 && ranks == NULL) || rank > ORTRAIN_MAX_RANK ||
          (dots > 0 ? rank < letters : rank != letters))
        return FALSE;
      e->operands[i].rank = (guint) rank;
      if (dots > 0)
        ellipsis_rank = MAX (ellipsis_rank, rank - letters);
    }
  for (gint l = 0; l < 52; l++)
    number[l] = count[l] > 0 ? (gint) e->n_labels++ : -1;
  guint first_ellipsis = e->n_labels;
  e->n_labels += (guint) ellipsis_rank;

  if (!arrow)
    {
      guint k = 0;
      if (e->has_ellipsis)
        output[k++] = '.';
      /* in the order of the alphabet: capitals first, as in ASCII */
      for (gint l = 0; l < 52; l++)
        if (count[l] == 1)
          output[k++] = (char) (l < 26 ? 'A' + l : 'a' + l - 26);
    }
  for (guint i = 0; i <= n_operands; i++)
    {
      OrtrainEinsumTerm *term = i < n_operands ? &e->operands[i] : &e->output;
      const char *text = i < n_operands ? terms[i] : output;
      guint rank = 0, letters = 0;
      guint64 seen[2] = { 0, 0 };
      for (const char *p = text; *p != '\0'; p++)
        letters += *p != '.';
      for (const char *p = text; *p != '\0'; p++)
        if (*p == '.')
          {
            guint width = i < n_operands ? term->rank - letters : (guint) ellipsis_rank;
            if (letters + width > ORTRAIN_MAX_RANK)
              return FALSE;
            for (guint k = 0; k < width; k++)
              term->labels[rank++] = (guint8) (first_ellipsis + (guint) ellipsis_rank - width + k);
          }
        else
          {
            gint label = number[ortrain_einsum_letter (*p)];
            if (label < 0 || rank >= ORTRAIN_MAX_RANK)
              return FALSE;
            if (seen[label / 64] & (G_GUINT64_CONSTANT (1) << (label % 64)))
              {
                if (i == n_operands)
                  return FALSE;
                e->has_repeats = TRUE;
              }
            seen[label / 64] |= G_GUINT64_CONSTANT (1) << (label % 64);
            term->labels[rank++] = (guint8) label;
          }
      term->rank = rank;
    }
  return TRUE;
}

static inline gboolean
ortrain_einsum_has (const OrtrainEinsumTerm *term, guint label)
{
  return memchr (term->labels, (int) label, term->rank) != NULL;
}
