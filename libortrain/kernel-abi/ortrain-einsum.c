/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-abi/ortrain-einsum-private.h"

#define N_LETTERS 52
#define MAX_TERM 60 /* characters: more than any rank allows, and repeated letters */
#define ELLIPSIS '.'

/* The text of a term: letters, and one character for an ellipsis. */
typedef struct
{
  char text[MAX_TERM + 4];
  guint n, n_letters, n_ellipses;
} Term;

typedef struct
{
  Term operands[ORTRAIN_EINSUM_MAX_OPERANDS], output;
  guint n_operands;
  gboolean has_output;
  guint count[N_LETTERS]; /* how often the operands have a letter */
  gint labels[N_LETTERS]; /* -1: no operand has it */
  guint first_ellipsis;   /* labels of the axes of an ellipsis, in the operand that has the most of them */
  guint n_ellipsis_labels;
} Equation;

/* Capitals first, as in ASCII: an output that is not written is in this order. */
static gint
get_letter (char c)
{
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static gboolean
term_append (Term *term, char c)
{
  if (term->n >= MAX_TERM)
    return FALSE;
  term->text[term->n++] = c;
  if (c == ELLIPSIS)
    term->n_ellipses++;
  else
    term->n_letters++;
  return term->n_ellipses <= 1;
}

static gboolean
split_terms (const char *text, Equation *self)
{
  guint n = 0;
  Term *term = &self->operands[0];
  for (const char *p = text; *p != '\0'; p++)
    {
      if (*p == ' ')
        continue;
      if (g_str_has_prefix (p, "->"))
        {
          if (self->has_output)
            return FALSE;
          self->has_output = TRUE;
          term = &self->output;
          p++;
        }
      else if (*p == ',')
        {
          if (self->has_output || ++n >= self->n_operands)
            return FALSE;
          term = &self->operands[n];
        }
      else if (g_str_has_prefix (p, "..."))
        {
          if (!term_append (term, ELLIPSIS))
            return FALSE;
          p += 2;
        }
      else if (get_letter (*p) < 0 || !term_append (term, *p))
        return FALSE;
    }
  return n + 1 == self->n_operands;
}

/* How many axes each operand has, and how many the longest ellipsis stands for. */
static gboolean
find_ranks (Equation *self, const gint *ranks, OrtrainEinsum *einsum)
{
  for (guint i = 0; i < self->n_operands; i++)
    {
      const Term *term = &self->operands[i];
      const gboolean has_ellipsis = term->n_ellipses > 0;
      if (has_ellipsis && ranks == NULL)
        return FALSE;
      const guint rank = ranks != NULL ? (guint) ranks[i] : term->n_letters;
      if (rank > ORTRAIN_MAX_RANK || (has_ellipsis ? rank < term->n_letters : rank != term->n_letters))
        return FALSE;
      einsum->operands[i].rank = rank;
      if (has_ellipsis)
        self->n_ellipsis_labels = MAX (self->n_ellipsis_labels, rank - term->n_letters);
      einsum->has_ellipsis = einsum->has_ellipsis || has_ellipsis;
    }
  einsum->has_ellipsis = einsum->has_ellipsis || self->output.n_ellipses > 0;
  return TRUE;
}

/* In alphabetical order; the axes of an ellipsis come last. */
static void
number_labels (Equation *self, OrtrainEinsum *einsum)
{
  for (guint i = 0; i < self->n_operands; i++)
    for (guint k = 0; k < self->operands[i].n; k++)
      if (self->operands[i].text[k] != ELLIPSIS)
        self->count[get_letter (self->operands[i].text[k])]++;
  for (guint l = 0; l < N_LETTERS; l++)
    self->labels[l] = self->count[l] > 0 ? (gint) einsum->n_labels++ : -1;
  self->first_ellipsis = einsum->n_labels;
  einsum->n_labels += self->n_ellipsis_labels;
}

/* The implied output has the letters that occur once; the others are summed. */
static void
imply_output (Equation *self, const OrtrainEinsum *einsum)
{
  if (einsum->has_ellipsis)
    term_append (&self->output, ELLIPSIS);
  for (guint l = 0; l < N_LETTERS; l++)
    if (self->count[l] == 1)
      term_append (&self->output, (char) (l < 26 ? 'A' + l : 'a' + l - 26));
}

/* width: of the term's ellipsis. */
static gboolean
label_axes (const Equation *self, const Term *term, guint width, gboolean may_repeat, OrtrainEinsumTerm *result,
            gboolean *has_repeats)
{
  guint rank = 0;
  if (term->n_letters + (term->n_ellipses > 0 ? width : 0) > ORTRAIN_MAX_RANK)
    return FALSE;
  for (guint i = 0; i < term->n; i++)
    if (term->text[i] == ELLIPSIS)
      for (guint k = 0; k < width; k++)
        result->labels[rank++] = (guint8) (self->first_ellipsis + self->n_ellipsis_labels - width + k);
    else
      {
        const gint label = self->labels[get_letter (term->text[i])];
        if (label < 0)
          return FALSE;
        if (memchr (result->labels, label, rank) != NULL)
          {
            if (!may_repeat)
              return FALSE;
            *has_repeats = TRUE;
          }
        result->labels[rank++] = (guint8) label;
      }
  result->rank = rank;
  return TRUE;
}

gboolean
ortrain_einsum_parse (const char *equation, guint n_operands, const gint *ranks, OrtrainEinsum *einsum)
{
  Equation self = { .n_operands = n_operands };
  memset (einsum, 0, sizeof *einsum);
  einsum->n_operands = n_operands;
  if (n_operands < 1 || n_operands > ORTRAIN_EINSUM_MAX_OPERANDS || !split_terms (equation, &self) ||
      !find_ranks (&self, ranks, einsum))
    return FALSE;
  number_labels (&self, einsum);
  if (!self.has_output)
    imply_output (&self, einsum);
  for (guint i = 0; i < n_operands; i++)
    {
      const Term *term = &self.operands[i];
      if (!label_axes (&self, term, einsum->operands[i].rank - term->n_letters, TRUE, &einsum->operands[i],
                       &einsum->has_repeats))
        return FALSE;
    }
  return label_axes (&self, &self.output, self.n_ellipsis_labels, FALSE, &einsum->output, &einsum->has_repeats);
}
