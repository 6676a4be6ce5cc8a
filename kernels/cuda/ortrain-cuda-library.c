/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-library-private.h"

#include <dlfcn.h>
#include <gmodule.h>

typedef struct
{
  const char *name;
  gsize offset; /* of the pointer in the table */
} Entry;

/* ---- the environment ---- */

gboolean
ortrain_cuda_is_set (const char *variable)
{
  const char *text = g_getenv (variable);
  return text != NULL && *text != '\0' && !g_str_equal (text, "0");
}

gboolean
ortrain_cuda_is_strict (void)
{
  return ortrain_cuda_is_set ("ORTRAIN_CUDA_STRICT");
}

/* ---- finding ---- */

/* A folder below site-packages: nvidia/cublas/lib, nvidia/cu13/lib. */
static gpointer
open_below (const char *folder, const char *file)
{
  g_autofree char *packages = g_build_filename (folder, "nvidia", NULL);
  g_autoptr (GDir) dir = g_dir_open (packages, 0, NULL);
  gpointer library = NULL;
  for (const char *name; library == NULL && dir != NULL && (name = g_dir_read_name (dir)) != NULL;)
    {
      g_autofree char *path = g_build_filename (packages, name, "lib", file, NULL);
      library = g_file_test (path, G_FILE_TEST_EXISTS) ? dlopen (path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    }
  return library;
}

/* Stays open: its threads and its memory live as long as the process. */
static gpointer
open_library (const char *file, GError **error)
{
  const char *variable = g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH");
  g_auto (GStrv) folders = g_strsplit (variable != NULL ? variable : "", G_SEARCHPATH_SEPARATOR_S, -1);
  for (guint i = 0; folders[i] != NULL; i++)
    {
      g_autofree char *path = g_build_filename (folders[i], file, NULL);
      gpointer library = NULL;
      if (*folders[i] != '\0' && g_file_test (path, G_FILE_TEST_EXISTS))
        library = dlopen (path, RTLD_LAZY | RTLD_LOCAL);
      if (library == NULL && *folders[i] != '\0')
        library = open_below (folders[i], file);
      if (library != NULL)
        return library;
    }
  gpointer library = dlopen (file, RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL)
    g_set_error (
        error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
        "Cannot open %s: %s; set ORTRAIN_CUDA_LIBRARY_PATH to its folder, or to the site-packages that hold it", file,
        dlerror ());
  return library;
}

static gboolean
fill_table (gpointer table, const char *file, const Entry *entries, guint n_entries, GError **error)
{
  gpointer library = open_library (file, error);
  for (guint i = 0; library != NULL && i < n_entries; i++)
    {
      gpointer function = dlsym (library, entries[i].name);
      if (function == NULL)
        {
          g_set_error (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
                       "%s has no function %s: it is of another version", file, entries[i].name);
          return FALSE;
        }
      memcpy ((char *) table + entries[i].offset, &function, sizeof function);
    }
  return library != NULL;
}

/* ---- tables ---- */

#define ENTRY_CUBLASLT(name) { #name, G_STRUCT_OFFSET (OrtrainCublasLt, name) },
static const Entry cublaslt_entries[] = { ORTRAIN_CUBLASLT_FUNCTIONS (ENTRY_CUBLASLT) };
#define ENTRY_CUDNN(name) { #name, G_STRUCT_OFFSET (OrtrainCudnn, name) },
static const Entry cudnn_entries[] = { ORTRAIN_CUDNN_FUNCTIONS (ENTRY_CUDNN) };
#define ENTRY_NCCL(name) { #name, G_STRUCT_OFFSET (OrtrainNccl, name) },
static const Entry nccl_entries[] = { ORTRAIN_NCCL_FUNCTIONS (ENTRY_NCCL) };

/* A library that is missing is looked for again: the variable may have been set meanwhile. */
const OrtrainCublasLt *
ortrain_cuda_open_cublaslt (GError **error)
{
  static GMutex lock;
  static gboolean is_open;
  static OrtrainCublasLt table;
  g_mutex_lock (&lock);
  is_open =
      is_open || fill_table (&table, "libcublasLt.so.13", cublaslt_entries, G_N_ELEMENTS (cublaslt_entries), error);
  g_mutex_unlock (&lock);
  return is_open ? &table : NULL;
}

const OrtrainCudnn *
ortrain_cuda_open_cudnn (GError **error)
{
  static GMutex lock;
  static gboolean is_open;
  static OrtrainCudnn table;
  g_mutex_lock (&lock);
  is_open = is_open || fill_table (&table, "libcudnn.so.9", cudnn_entries, G_N_ELEMENTS (cudnn_entries), error);
  g_mutex_unlock (&lock);
  return is_open ? &table : NULL;
}

gsize
ortrain_dnn_get_version (void)
{
  const OrtrainCudnn *api = ortrain_cuda_open_cudnn (NULL);
  return api != NULL ? api->cudnnGetVersion () : 0;
}

const OrtrainNccl *
ortrain_cuda_open_nccl (GError **error)
{
  static GMutex lock;
  static gboolean is_open;
  static OrtrainNccl table;
  g_mutex_lock (&lock);
  is_open = is_open || fill_table (&table, "libnccl.so.2", nccl_entries, G_N_ELEMENTS (nccl_entries), error);
  g_mutex_unlock (&lock);
  return is_open ? &table : NULL;
}

/* ---- versions ---- */

/* All three count alike: 13.1.0 is 130100. */
static void
append_version (GString *text, const char *name, gsize version, const GError *error)
{
  g_string_append_printf (text, "%s%s ", text->len > 0 ? ", " : "", name);
  if (error != NULL)
    g_string_append_printf (text, "is missing (%s)", error->message);
  else
    g_string_append_printf (text, "%" G_GSIZE_FORMAT ".%" G_GSIZE_FORMAT ".%" G_GSIZE_FORMAT, version / 10000,
                            version / 100 % 100, version % 100);
}

char *
ortrain_cuda_describe_libraries (void)
{
  GString *text = g_string_new (NULL);
  g_autoptr (GError) blas_error = NULL;
  g_autoptr (GError) dnn_error = NULL;
  g_autoptr (GError) nccl_error = NULL;
  const OrtrainCublasLt *blas = ortrain_cuda_open_cublaslt (&blas_error);
  const OrtrainCudnn *dnn = ortrain_cuda_open_cudnn (&dnn_error);
  const OrtrainNccl *nccl = ortrain_cuda_open_nccl (&nccl_error);
  int version = 0;
  append_version (text, "cuBLASLt", blas != NULL ? blas->cublasLtGetVersion () : 0, blas_error);
  append_version (text, "cuDNN", dnn != NULL ? dnn->cudnnGetVersion () : 0, dnn_error);
  if (nccl != NULL && nccl->ncclGetVersion (&version) != 0)
    version = 0;
  append_version (text, "NCCL", (gsize) MAX (version, 0), nccl_error);
  return g_string_free (text, FALSE);
}
