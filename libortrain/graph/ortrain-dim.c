/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-dim-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-text-private.h"

#include <string.h>

/* An expression is a sum of terms, a term a coefficient times a sorted list of symbols (a power is a repetition). The
 * terms are sorted by their symbols, none has coefficient 0, and an expression without symbols is a number and has no
 * object at all. Expressions are interned in their space, so that equality is equality of pointers. */

typedef struct
{
  gint64 coefficient;
  guint n_symbols;
  guint *symbols; /* sorted indices into space->symbols */
} Term;

struct _OrtrainDimExpr
{
  OrtrainDimSpace *space; /* no reference */
  guint n_terms;
  Term *terms;
};

typedef enum
{
  SYMBOL_NAMED,
  SYMBOL_UNKNOWN,
  SYMBOL_FLOOR_DIV,
  SYMBOL_CEIL_DIV,
  SYMBOL_MOD,
  SYMBOL_MIN,
  SYMBOL_MAX,
} SymbolKind;

typedef struct
{
  char *name;
  gsize length; /* of the name */
  SymbolKind kind;
  OrtrainDim a, b; /* operands of the kinds that are functions */
  OrtrainDim self;
} Symbol;

struct _OrtrainDimSpace
{
  gatomicrefcount ref_count;
  GRecMutex lock;      /* of all below. Clones of a graph share a space, and may be worked on by several threads */
  GPtrArray *symbols;  /* of Symbol */
  GHashTable *by_name; /* name → index + 1 */
  GHashTable *expressions;
  guint next_unknown;
};

#define LOCK(space) g_autoptr (GRecMutexLocker) G_GNUC_UNUSED locker = g_rec_mutex_locker_new (&(space)->lock)

/* Expressions with more terms than this become unknown: nobody writes them, but a hostile file could. */
#define MAX_TERMS 64
#define MAX_FACTORS 16
#define MAX_OPERANDS_TEXT 1024 /* bytes, of the operands of a division, a maximum and the like */
#define READABLE_TEXT 960      /* of an expression, for people */
#define SHAPE_TEXT 320         /* of a shape, for people */
#define MAX_TEXT 2048          /* of a sum or product; a symbol of a file may be longer */

static guint
expr_hash (gconstpointer key)
{
  const OrtrainDimExpr *expr = key;
  guint64 h = 1469598103934665603u;
  for (guint i = 0; i < expr->n_terms; i++)
    {
      h = (h ^ (guint64) expr->terms[i].coefficient) * 1099511628211u;
      for (guint j = 0; j < expr->terms[i].n_symbols; j++)
        h = (h ^ (expr->terms[i].symbols[j] + 1)) * 1099511628211u;
    }
  return (guint) (h ^ (h >> 32));
}

static int
compare_symbols (const Term *a, const Term *b)
{
  for (guint i = 0; i < a->n_symbols && i < b->n_symbols; i++)
    if (a->symbols[i] != b->symbols[i])
      return a->symbols[i] < b->symbols[i] ? -1 : 1;
  /* Longer products first, so that the constant comes last, as people write it. */
  return (a->n_symbols < b->n_symbols) - (a->n_symbols > b->n_symbols);
}

static gboolean
expr_equal (gconstpointer pa, gconstpointer pb)
{
  const OrtrainDimExpr *a = pa, *b = pb;
  if (a->n_terms != b->n_terms)
    return FALSE;
  for (guint i = 0; i < a->n_terms; i++)
    if (a->terms[i].coefficient != b->terms[i].coefficient || compare_symbols (&a->terms[i], &b->terms[i]) != 0)
      return FALSE;
  return TRUE;
}

static void
terms_free (Term *terms, guint n)
{
  for (guint i = 0; i < n; i++)
    g_free (terms[i].symbols);
  g_free (terms);
}

static void
expr_free (gpointer data)
{
  OrtrainDimExpr *expr = data;
  terms_free (expr->terms, expr->n_terms);
  g_free (expr);
}

static void
symbol_free (gpointer data)
{
  Symbol *symbol = data;
  g_free (symbol->name);
  g_free (symbol);
}

OrtrainDimSpace *
ortrain_dim_space_new (void)
{
  OrtrainDimSpace *self = g_new0 (OrtrainDimSpace, 1);
  g_atomic_ref_count_init (&self->ref_count);
  g_rec_mutex_init (&self->lock);
  self->symbols = g_ptr_array_new_with_free_func (symbol_free);
  self->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  self->expressions = g_hash_table_new_full (expr_hash, expr_equal, expr_free, NULL);
  return self;
}

OrtrainDimSpace *
ortrain_dim_space_ref (OrtrainDimSpace *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
ortrain_dim_space_unref (OrtrainDimSpace *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_hash_table_unref (self->expressions);
  g_hash_table_unref (self->by_name);
  g_ptr_array_unref (self->symbols);
  g_rec_mutex_clear (&self->lock);
  g_free (self);
}

static int
sort_terms (gconstpointer a, gconstpointer b)
{
  return compare_symbols (a, b);
}

/* Symbols alone are as long as they are. */
static gboolean
is_long (OrtrainDimSpace *space, const Term *terms, guint n)
{
  gsize length = 0;
  if (n == 1 && terms[0].n_symbols <= 1)
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      length += 24; /* a coefficient, and the sign */
      for (guint j = 0; j < terms[i].n_symbols; j++)
        length += 1 + ((const Symbol *) space->symbols->pdata[terms[i].symbols[j]])->length;
    }
  return length > MAX_TEXT;
}

/* Takes the terms: sorts, merges, drops zeros, interns. */
static OrtrainDim
intern (OrtrainDimSpace *space, Term *terms, guint n)
{
  qsort (terms, n, sizeof (Term), sort_terms);
  guint kept = 0;
  gboolean overflow = FALSE;
  for (guint i = 0; i < n; i++)
    {
      if (kept > 0 && compare_symbols (&terms[kept - 1], &terms[i]) == 0)
        {
          overflow |= !ortrain_checked_add_i64 (terms[kept - 1].coefficient, terms[i].coefficient,
                                                &terms[kept - 1].coefficient);
          g_free (terms[i].symbols);
        }
      else
        terms[kept++] = terms[i];
      if (terms[kept - 1].coefficient == 0 && (i + 1 == n || compare_symbols (&terms[kept - 1], &terms[i + 1]) != 0))
        g_free (terms[--kept].symbols);
    }
  for (guint i = 0; i < kept; i++)
    overflow |= terms[i].n_symbols > MAX_FACTORS;
  if (overflow || kept > MAX_TERMS || is_long (space, terms, kept))
    {
      terms_free (terms, kept);
      return ortrain_dim_unknown (space);
    }
  if (kept == 0 || (kept == 1 && terms[0].n_symbols == 0))
    {
      gint64 value = kept == 0 ? 0 : terms[0].coefficient;
      terms_free (terms, kept);
      return ortrain_dim_int (value);
    }

  OrtrainDimExpr probe = { space, kept, terms };
  OrtrainDimExpr *expr = g_hash_table_lookup (space->expressions, &probe);
  if (expr != NULL)
    terms_free (terms, kept);
  else
    {
      expr = g_new (OrtrainDimExpr, 1);
      *expr = probe;
      g_hash_table_add (space->expressions, expr);
    }
  return (OrtrainDim){ 0, expr };
}

static Term
term_copy (const Term *term)
{
  return (Term){ term->coefficient, term->n_symbols, g_memdup2 (term->symbols, term->n_symbols * sizeof (guint)) };
}

/* The terms of a dim in this space; a number is one term without symbols. *n terms, to be freed. */
static Term *
terms_of (OrtrainDim dim, guint *n)
{
  if (dim.expr == NULL)
    {
      Term *term = g_new0 (Term, 1);
      term->coefficient = dim.value;
      *n = 1;
      return term;
    }
  Term *terms = g_new (Term, dim.expr->n_terms);
  for (guint i = 0; i < dim.expr->n_terms; i++)
    terms[i] = term_copy (&dim.expr->terms[i]);
  *n = dim.expr->n_terms;
  return terms;
}

static OrtrainDim
add_symbol (OrtrainDimSpace *space, char *name, SymbolKind kind, OrtrainDim a, OrtrainDim b)
{
  gpointer found = g_hash_table_lookup (space->by_name, name);
  if (found != NULL)
    {
      g_free (name);
      return ((Symbol *) space->symbols->pdata[GPOINTER_TO_UINT (found) - 1])->self;
    }
  Symbol *symbol = g_new0 (Symbol, 1);
  symbol->name = name;
  symbol->length = strlen (name);
  symbol->kind = kind;
  symbol->a = a;
  symbol->b = b;
  guint index = space->symbols->len;
  g_ptr_array_add (space->symbols, symbol);
  g_hash_table_insert (space->by_name, name, GUINT_TO_POINTER (index + 1));
  Term *term = g_new (Term, 1);
  *term = (Term){ 1, 1, g_memdup2 (&index, sizeof index) };
  symbol->self = intern (space, term, 1);
  return symbol->self;
}

OrtrainDim
ortrain_dim_symbol (OrtrainDimSpace *space, const char *name)
{
  LOCK (space);
  return add_symbol (space, g_strdup (name), SYMBOL_NAMED, ortrain_dim_int (0), ortrain_dim_int (0));
}

OrtrainDim
ortrain_dim_unknown (OrtrainDimSpace *space)
{
  LOCK (space);
  char *name;
  do
    name = g_strdup_printf ("?%u", ++space->next_unknown);
  while (g_hash_table_contains (space->by_name, name) && (g_free (name), TRUE));
  return add_symbol (space, name, SYMBOL_UNKNOWN, ortrain_dim_int (0), ortrain_dim_int (0));
}

gboolean
ortrain_dim_is_symbol (OrtrainDim dim, const char **name)
{
  if (dim.expr == NULL || dim.expr->n_terms != 1 || dim.expr->terms[0].coefficient != 1 ||
      dim.expr->terms[0].n_symbols != 1)
    return FALSE;
  if (name == NULL)
    return TRUE;
  LOCK (dim.expr->space);
  *name = ((Symbol *) dim.expr->space->symbols->pdata[dim.expr->terms[0].symbols[0]])->name;
  return TRUE;
}

static OrtrainDim
combine (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b, gint64 sign)
{
  LOCK (space);
  guint na, nb;
  Term *ta = terms_of (a, &na), *tb = terms_of (b, &nb);
  ta = g_renew (Term, ta, na + nb);
  gboolean overflow = FALSE;
  for (guint i = 0; i < nb; i++)
    {
      overflow |= !ortrain_checked_mul_i64 (tb[i].coefficient, sign, &tb[i].coefficient);
      ta[na + i] = tb[i];
    }
  g_free (tb);
  if (overflow)
    {
      terms_free (ta, na + nb);
      return ortrain_dim_unknown (space);
    }
  return intern (space, ta, na + nb);
}

OrtrainDim
ortrain_dim_add (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  gint64 sum;
  if (a.expr == NULL && b.expr == NULL && ortrain_checked_add_i64 (a.value, b.value, &sum))
    return ortrain_dim_int (sum);
  return combine (space, a, b, 1);
}

OrtrainDim
ortrain_dim_sub (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  gint64 difference;
  if (a.expr == NULL && b.expr == NULL && !__builtin_sub_overflow (a.value, b.value, &difference))
    return ortrain_dim_int (difference);
  return combine (space, a, b, -1);
}

OrtrainDim
ortrain_dim_mul (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  gint64 product;
  if (a.expr == NULL && b.expr == NULL && ortrain_checked_mul_i64 (a.value, b.value, &product))
    return ortrain_dim_int (product);
  LOCK (space);
  guint na, nb;
  Term *ta = terms_of (a, &na), *tb = terms_of (b, &nb);
  Term *terms = g_new0 (Term, na * nb);
  gboolean overflow = na * nb > 4 * MAX_TERMS;
  for (guint i = 0; i < na && !overflow; i++)
    for (guint j = 0; j < nb; j++)
      {
        Term *term = &terms[i * nb + j];
        overflow |= !ortrain_checked_mul_i64 (ta[i].coefficient, tb[j].coefficient, &term->coefficient);
        term->n_symbols = ta[i].n_symbols + tb[j].n_symbols;
        term->symbols = g_new (guint, MAX (term->n_symbols, 1));
        for (guint x = 0, y = 0, k = 0; k < term->n_symbols; k++)
          {
            gboolean left = y == tb[j].n_symbols || (x < ta[i].n_symbols && ta[i].symbols[x] <= tb[j].symbols[y]);
            term->symbols[k] = left ? ta[i].symbols[x++] : tb[j].symbols[y++];
          }
      }
  terms_free (ta, na);
  terms_free (tb, nb);
  if (overflow)
    {
      terms_free (terms, na * nb);
      return ortrain_dim_unknown (space);
    }
  return intern (space, terms, na * nb);
}

/* a divided by the single term b without remainder, if it comes out. */
static gboolean
divide_exactly (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b, OrtrainDim *result)
{
  guint na, nb;
  if (b.expr != NULL && b.expr->n_terms != 1)
    return FALSE;
  Term *ta = terms_of (a, &na), *tb = terms_of (b, &nb);
  gboolean exact = tb[0].coefficient != 0;
  for (guint i = 0; i < na && exact; i++)
    {
      if (tb[0].coefficient == -1 && ta[i].coefficient == G_MININT64)
        exact = FALSE;
      else if (ta[i].coefficient % tb[0].coefficient != 0)
        exact = FALSE;
      else
        ta[i].coefficient /= tb[0].coefficient;
      for (guint j = 0; j < tb[0].n_symbols && exact; j++)
        {
          guint k = 0;
          while (k < ta[i].n_symbols && ta[i].symbols[k] != tb[0].symbols[j])
            k++;
          if (k == ta[i].n_symbols)
            exact = FALSE;
          else
            {
              memmove (&ta[i].symbols[k], &ta[i].symbols[k + 1], (ta[i].n_symbols - k - 1) * sizeof (guint));
              ta[i].n_symbols--;
            }
        }
    }
  terms_free (tb, nb);
  if (!exact)
    {
      terms_free (ta, na);
      return FALSE;
    }
  *result = intern (space, ta, na);
  return TRUE;
}

static gint64
floor_div (gint64 a, gint64 b)
{
  gint64 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

static gboolean
apply (SymbolKind kind, gint64 a, gint64 b, gint64 *result)
{
  switch (kind)
    {
    case SYMBOL_FLOOR_DIV:
    case SYMBOL_CEIL_DIV:
    case SYMBOL_MOD:
      if (b == 0 || (a == G_MININT64 && b == -1))
        return FALSE;
      if (kind == SYMBOL_FLOOR_DIV)
        *result = floor_div (a, b);
      else if (kind == SYMBOL_CEIL_DIV)
        *result = floor_div (a, b) + (a % b != 0);
      else
        *result = a - floor_div (a, b) * b;
      return TRUE;
    case SYMBOL_MIN:
      *result = MIN (a, b);
      return TRUE;
    case SYMBOL_MAX:
      *result = MAX (a, b);
      return TRUE;
    case SYMBOL_NAMED:
    case SYMBOL_UNKNOWN:
      break;
    }
  return FALSE;
}

static OrtrainDim
function (OrtrainDimSpace *space, SymbolKind kind, const char *format, OrtrainDim a, OrtrainDim b)
{
  gint64 value;
  if (a.expr == NULL && b.expr == NULL)
    return apply (kind, a.value, b.value, &value) ? ortrain_dim_int (value) : ortrain_dim_unknown (space);
  g_autofree char *sa = ortrain_dim_to_string (a);
  g_autofree char *sb = ortrain_dim_to_string (b);
  if (strlen (sa) + strlen (sb) > MAX_OPERANDS_TEXT) /* nested without end by a hostile file */
    return ortrain_dim_unknown (space);
  return add_symbol (space, g_strdup_printf ("%s(%s, %s)", format, sa, sb), kind, a, b);
}

/* dim = quotient + *rest, with a quotient by a positive number; NULL if it is something else. */
static const Symbol *
find_quotient (OrtrainDim dim, gint64 *rest)
{
  const OrtrainDimExpr *expr = dim.expr;
  if (expr == NULL || expr->n_terms > 2 || expr->terms[0].coefficient != 1 || expr->terms[0].n_symbols != 1 ||
      (expr->n_terms == 2 && expr->terms[1].n_symbols != 0))
    return NULL;
  const Symbol *symbol = expr->space->symbols->pdata[expr->terms[0].symbols[0]];
  *rest = expr->n_terms == 2 ? expr->terms[1].coefficient : 0;
  return symbol->kind == SYMBOL_FLOOR_DIV && symbol->b.expr == NULL && symbol->b.value > 0 ? symbol : NULL;
}

/* a divided by a positive number: terms that divide evenly are taken out, the rest has a constant from 0 to n - 1, and
 * a quotient of a quotient is one quotient. Equal quotients then look equal. FALSE if there is no such form. */
static gboolean
divide_by_number (OrtrainDimSpace *space, OrtrainDim a, gint64 n, OrtrainDim *result)
{
  if (a.expr == NULL || n <= 1)
    return FALSE;
  guint n_terms, n_even = 0, n_rest = 0;
  Term *terms = terms_of (a, &n_terms);
  Term *even = g_new0 (Term, n_terms + 1), *rest = g_new0 (Term, n_terms + 1);
  for (guint i = 0; i < n_terms; i++)
    {
      const gint64 quotient = floor_div (terms[i].coefficient, n), remainder = terms[i].coefficient - quotient * n;
      const gboolean split = remainder == 0 || terms[i].n_symbols == 0;
      if (split && quotient != 0)
        {
          even[n_even] = term_copy (&terms[i]);
          even[n_even++].coefficient = quotient;
        }
      if (!split || remainder != 0)
        {
          rest[n_rest] = term_copy (&terms[i]);
          rest[n_rest++].coefficient = split ? remainder : terms[i].coefficient;
        }
    }
  terms_free (terms, n_terms);
  const OrtrainDim whole = intern (space, even, n_even), left = intern (space, rest, n_rest);
  gint64 product, rest_value, shift;
  const Symbol *inner = find_quotient (left, &rest_value);
  OrtrainDim quotient;
  if (left.expr == NULL)
    quotient = ortrain_dim_int (floor_div (left.value, n));
  else if (inner != NULL && ortrain_checked_mul_i64 (inner->b.value, n, &product) &&
           ortrain_checked_mul_i64 (inner->b.value, rest_value, &shift))
    quotient = ortrain_dim_floor_div (space, ortrain_dim_add (space, inner->a, ortrain_dim_int (shift)),
                                      ortrain_dim_int (product));
  else
    quotient = function (space, SYMBOL_FLOOR_DIV, "floor_div", left, ortrain_dim_int (n));
  *result = ortrain_dim_add (space, whole, quotient);
  return TRUE;
}

OrtrainDim
ortrain_dim_floor_div (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  LOCK (space);
  OrtrainDim result;
  if (divide_exactly (space, a, b, &result))
    return result;
  if (ortrain_dim_equal (a, b))
    return ortrain_dim_int (1);
  if (b.expr == NULL && divide_by_number (space, a, b.value, &result))
    return result;
  return function (space, SYMBOL_FLOOR_DIV, "floor_div", a, b);
}

OrtrainDim
ortrain_dim_ceil_div (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  LOCK (space);
  OrtrainDim result;
  if (divide_exactly (space, a, b, &result))
    return result;
  if (ortrain_dim_equal (a, b))
    return ortrain_dim_int (1);
  if (b.expr == NULL && b.value > 1 && a.expr != NULL)
    return ortrain_dim_floor_div (space, ortrain_dim_add (space, a, ortrain_dim_int (b.value - 1)), b);
  return function (space, SYMBOL_CEIL_DIV, "ceil_div", a, b);
}

OrtrainDim
ortrain_dim_mod (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  LOCK (space);
  OrtrainDim result;
  if (divide_exactly (space, a, b, &result) || ortrain_dim_equal (a, b))
    return ortrain_dim_int (0);
  return function (space, SYMBOL_MOD, "mod", a, b);
}

OrtrainDim
ortrain_dim_min (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  LOCK (space);
  OrtrainDim difference = ortrain_dim_sub (space, a, b);
  if (difference.expr == NULL)
    return difference.value <= 0 ? a : b;
  return function (space, SYMBOL_MIN, "min", a, b);
}

OrtrainDim
ortrain_dim_max (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b)
{
  LOCK (space);
  OrtrainDim difference = ortrain_dim_sub (space, a, b);
  if (difference.expr == NULL)
    return difference.value >= 0 ? a : b;
  return function (space, SYMBOL_MAX, "max", a, b);
}

gboolean
ortrain_dim_broadcast (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b, OrtrainDim *result)
{
  if (ortrain_dim_equal (a, b) || (b.expr == NULL && b.value == 1))
    *result = a;
  else if (a.expr == NULL && a.value == 1)
    *result = b;
  else if (a.expr == NULL && b.expr == NULL)
    return FALSE;
  else if (a.expr == NULL)
    *result = a; /* the other is this or 1 */
  else if (b.expr == NULL)
    *result = b;
  else
    *result = ortrain_dim_max (space, a, b);
  return TRUE;
}

/* The depth of nested functions is bounded by the length limit of their names. */
gboolean
ortrain_dim_evaluate (OrtrainDim dim, OrtrainDimLookupFunc lookup, gpointer user_data, gint64 *value)
{
  if (dim.expr == NULL)
    {
      *value = dim.value;
      return TRUE;
    }
  LOCK (dim.expr->space);
  gint64 sum = 0;
  for (guint i = 0; i < dim.expr->n_terms; i++)
    {
      gint64 product = dim.expr->terms[i].coefficient;
      for (guint j = 0; j < dim.expr->terms[i].n_symbols; j++)
        {
          const Symbol *symbol = dim.expr->space->symbols->pdata[dim.expr->terms[i].symbols[j]];
          gint64 a, b, v;
          if (symbol->kind == SYMBOL_NAMED || symbol->kind == SYMBOL_UNKNOWN)
            {
              if (!lookup (symbol->name, &v, user_data))
                return FALSE;
            }
          else if (!ortrain_dim_evaluate (symbol->a, lookup, user_data, &a) ||
                   !ortrain_dim_evaluate (symbol->b, lookup, user_data, &b) || !apply (symbol->kind, a, b, &v))
            return FALSE;
          if (!ortrain_checked_mul_i64 (product, v, &product))
            return FALSE;
        }
      if (!ortrain_checked_add_i64 (sum, product, &sum))
        return FALSE;
    }
  *value = sum;
  return TRUE;
}

char *
ortrain_dim_to_string (OrtrainDim dim)
{
  if (dim.expr == NULL)
    return g_strdup_printf ("%" G_GINT64_FORMAT, dim.value);
  LOCK (dim.expr->space);
  GString *string = g_string_new (NULL);
  for (guint i = 0; i < dim.expr->n_terms; i++)
    {
      const Term *term = &dim.expr->terms[i];
      guint64 magnitude = term->coefficient < 0 ? -(guint64) term->coefficient : (guint64) term->coefficient;
      if (i > 0)
        g_string_append (string, term->coefficient < 0 ? " - " : " + ");
      else if (term->coefficient < 0)
        g_string_append_c (string, '-');
      if (magnitude != 1 || term->n_symbols == 0)
        g_string_append_printf (string, "%" G_GUINT64_FORMAT "%s", magnitude, term->n_symbols > 0 ? "*" : "");
      for (guint j = 0; j < term->n_symbols; j++)
        {
          const Symbol *symbol = dim.expr->space->symbols->pdata[term->symbols[j]];
          g_string_append_printf (string, "%s%s", j > 0 ? "*" : "", symbol->name);
        }
    }
  return g_string_free (string, FALSE);
}

static void append_readable (GString *out, OrtrainDim dim);

/* floor((a + r) / n); with r = n - 1 that is a rounded up. */
static void
append_quotient (GString *out, const Symbol *symbol)
{
  OrtrainDimSpace *space = symbol->self.expr->space;
  const gboolean number = symbol->b.expr == NULL;
  OrtrainDim a = symbol->a;
  gboolean up = symbol->kind == SYMBOL_CEIL_DIV;
  if (number && !up && symbol->b.value > 1)
    {
      const Term *last = &a.expr->terms[a.expr->n_terms - 1];
      up = last->n_symbols == 0 && last->coefficient == symbol->b.value - 1;
      if (up)
        a = ortrain_dim_sub (space, a, ortrain_dim_int (symbol->b.value - 1));
    }
  const gboolean sum = a.expr != NULL && a.expr->n_terms > 1, below = !number;
  g_string_append (out, up ? "ceil(" : "floor(");
  g_string_append (out, sum ? "(" : "");
  append_readable (out, a);
  g_string_append (out, sum ? ")/" : "/");
  g_string_append (out, below ? "(" : "");
  append_readable (out, symbol->b);
  g_string_append (out, below ? "))" : ")");
}

static void
append_symbol (GString *out, const Symbol *symbol)
{
  static const char *const names[] = { [SYMBOL_MOD] = "mod", [SYMBOL_MIN] = "min", [SYMBOL_MAX] = "max" };
  switch (symbol->kind)
    {
    case SYMBOL_NAMED:
    case SYMBOL_UNKNOWN:
      g_string_append (out, symbol->name);
      break;
    case SYMBOL_FLOOR_DIV:
    case SYMBOL_CEIL_DIV:
      append_quotient (out, symbol);
      break;
    case SYMBOL_MOD:
    case SYMBOL_MIN:
    case SYMBOL_MAX:
      g_string_append_printf (out, "%s(", names[symbol->kind]);
      append_readable (out, symbol->a);
      g_string_append (out, ", ");
      append_readable (out, symbol->b);
      g_string_append_c (out, ')');
      break;
    }
}

static void
append_readable (GString *out, OrtrainDim dim)
{
  if (dim.expr == NULL)
    {
      g_string_append_printf (out, "%" G_GINT64_FORMAT, dim.value);
      return;
    }
  for (guint i = 0; i < dim.expr->n_terms; i++)
    {
      const Term *term = &dim.expr->terms[i];
      const guint64 magnitude = term->coefficient < 0 ? -(guint64) term->coefficient : (guint64) term->coefficient;
      g_string_append (out, i > 0 ? (term->coefficient < 0 ? " - " : " + ") : term->coefficient < 0 ? "-" : "");
      if (magnitude != 1 || term->n_symbols == 0)
        g_string_append_printf (out, "%" G_GUINT64_FORMAT "%s", magnitude, term->n_symbols > 0 ? "*" : "");
      for (guint j = 0; j < term->n_symbols; j++)
        {
          g_string_append (out, j > 0 ? "*" : "");
          append_symbol (out, dim.expr->space->symbols->pdata[term->symbols[j]]);
        }
    }
}

char *
ortrain_dim_to_readable (OrtrainDim dim)
{
  GString *out = g_string_new (NULL);
  if (dim.expr == NULL)
    append_readable (out, dim);
  else
    {
      LOCK (dim.expr->space);
      append_readable (out, dim);
    }
  g_autofree char *text = g_string_free (out, FALSE);
  return ortrain_text_quote_within (text, READABLE_TEXT);
}

char *
ortrain_dims_to_readable (const OrtrainDim *dims, gint rank, GPtrArray *legend)
{
  if (rank < 0)
    return g_strdup ("?");
  GString *out = g_string_new ("[");
  for (gint i = 0; i < rank; i++)
    {
      g_autofree char *dim = ortrain_dim_to_readable (dims[i]);
      guint index;
      g_string_append (out, i > 0 ? ", " : "");
      if (legend == NULL || strlen (dim) <= ORTRAIN_DIM_READABLE_LENGTH)
        {
          g_string_append (out, dim);
          continue;
        }
      if (!g_ptr_array_find_with_equal_func (legend, dim, g_str_equal, &index))
        {
          index = legend->len;
          g_ptr_array_add (legend, g_steal_pointer (&dim));
        }
      g_string_append_printf (out, "$%u", index + 1);
    }
  g_string_append_c (out, ']');
  g_autofree char *text = g_string_free (out, FALSE);
  return ortrain_text_quote_within (text, SHAPE_TEXT);
}

char *
ortrain_dims_to_string (const OrtrainDim *dims, gint rank)
{
  if (rank < 0)
    return g_strdup ("?");
  GString *string = g_string_new ("[");
  for (gint i = 0; i < rank; i++)
    {
      g_autofree char *dim = ortrain_dim_to_string (dims[i]);
      g_string_append_printf (string, "%s%s", i > 0 ? ", " : "", dim);
    }
  g_string_append_c (string, ']');
  g_autofree char *text = g_string_free (string, FALSE);
  return ortrain_text_quote_within (text, SHAPE_TEXT);
}
