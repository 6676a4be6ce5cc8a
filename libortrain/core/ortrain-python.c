/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-python-private.h"

#include <gmodule.h>

/* What PyGObject says of a call that only the override takes, such as AdamW (1e-3), names neither the override nor the
 * library. The modules that Python has imported are looked at, by functions that the process has or has not. */
void
ortrain_python_check_override (void)
{
  static gsize checked = 0;
  if (!g_once_init_enter (&checked))
    return;
  g_once_init_leave (&checked, 1);
  int (*holds_lock) (void) = NULL;
  gpointer (*get_modules) (void) = NULL;
  gpointer (*get_item) (gpointer dict, const char *key) = NULL;
  GModule *process = g_module_open (NULL, 0);
  if (process != NULL && g_module_symbol (process, "PyGILState_Check", (gpointer *) &holds_lock) &&
      g_module_symbol (process, "PyImport_GetModuleDict", (gpointer *) &get_modules) &&
      g_module_symbol (process, "PyDict_GetItemString", (gpointer *) &get_item) && holds_lock () == 1)
    {
      gpointer modules = get_modules ();
      if (get_item (modules, "gi.repository") != NULL && get_item (modules, "gi.overrides.Ortrain") == NULL)
        g_message ("Python does not find gi/overrides/Ortrain.py: without it, arrays and mappings are not taken, and "
                   "constructors take nothing but properties by their names. Add the folder that has it to PYTHONPATH, "
                   "or to a .pth file of the virtual environment; doc/python.md says more");
    }
  g_clear_pointer (&process, g_module_close);
}
