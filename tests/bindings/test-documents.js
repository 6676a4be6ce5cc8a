// SPDX-License-Identifier: LGPL-2.1-or-later
// What doc/javascript.md shows runs as one program.
import GLib from 'gi://GLib';
import {assert, equal, folder, run} from './tap.js';

run({
    async javascript() {
        const here = GLib.path_get_dirname(GLib.filename_from_uri(import.meta.url)[0]);
        const [, bytes] = GLib.file_get_contents(GLib.build_filenamev([here, '..', '..', 'doc', 'javascript.md']));
        const blocks = [...new TextDecoder().decode(bytes).matchAll(/^```js\n(.*?)^```$/gms)].map(match => match[1]);
        equal(blocks.length, 4);
        const path = GLib.build_filenamev([folder, 'shown.js']), printed = [];
        globalThis.shown = (...values) => printed.push(values.join(' '));
        GLib.file_set_contents(path, `const print = globalThis.shown;\n${blocks.join('\n')}`);
        await import(`file://${path}`);
        assert(printed.some(line => line.includes('the array is ragged: [0] has the shape [2], [1] has [1]')));
        assert(printed.includes('2,2 1,2,3,4 int64[2] 1 2'), printed.join('; '));
        assert(printed.includes('true,0.25'));
        equal(printed[printed.length - 1], 'enough');
    },
});
