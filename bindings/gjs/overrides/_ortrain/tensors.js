// SPDX-License-Identifier: LGPL-2.1-or-later
/* exported init */
// Tensors of numbers, nested arrays and typed arrays, and dictionaries of them.
const {GLib, GObject} = imports.gi;
const {show} = imports.overrides._ortrain.values;

const TYPED = {
    FLOAT32: Float32Array, FLOAT64: Float64Array, INT8: Int8Array, UINT8: Uint8Array, INT16: Int16Array,
    UINT16: Uint16Array, INT32: Int32Array, UINT32: Uint32Array, INT64: BigInt64Array, UINT64: BigUint64Array,
    BOOL: Uint8Array, FLOAT16: Uint16Array, BFLOAT16: Uint16Array,
};
const BITS = ['FLOAT16', 'BFLOAT16', 'BOOL'];     // a typed array has their bits
const LIMITS = {FLOAT32: 3.4028235677973366e38, FLOAT16: 65520, BFLOAT16: 3.3961775292304957e38};  // from here on it is infinite
const INTEGERS = {
    INT8: [-128n, 127n], UINT8: [0n, 255n], INT16: [-32768n, 32767n], UINT16: [0n, 65535n], INT32: [-(2n ** 31n), 2n ** 31n - 1n],
    UINT32: [0n, 2n ** 32n - 1n], INT64: [-(2n ** 63n), 2n ** 63n - 1n], UINT64: [0n, 2n ** 64n - 1n],
};

function isTyped(value) {
    return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

function isList(value) {
    return value !== null && typeof value === 'object' && (isTyped(value) || typeof value[Symbol.iterator] === 'function');
}

const isElement = value => typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
const pathOf = indices => indices.map(i => `[${i}]`).join('');

// Appends the elements of nested arrays to `elements` and returns their shape. indices: the position, for messages
function flatten(value, elements, indices) {
    if (!isList(value)) {
        if (!isElement(value)) {
            const where = indices.length === 0 ? 'the value' : `element ${pathOf(indices)}`;
            throw new TypeError(`Tensor.from (): ${where} is ${show(value)}; a number, a bigint or a boolean is needed`);
        }
        elements.push(value);
        return [];
    }
    if (indices.length > 16)
        throw new TypeError('Tensor.from (): the arrays are nested more than 16 deep');
    const items = isTyped(value) ? value : Array.from(value);
    let shape = null;
    for (let i = 0; i < items.length; i++) {
        if (isElement(items[i]) && (shape === null || shape.length === 0)) {
            elements.push(items[i]);
            shape ??= [];
            continue;
        }
        indices.push(i);
        const found = flatten(items[i], elements, indices);
        indices.pop();
        if (shape !== null && (found.length !== shape.length || found.some((n, k) => n !== shape[k]))) {
            const path = pathOf(indices);
            throw new TypeError(`Tensor.from (): the array is ragged: ${path}[0] has the shape [${shape}], ${path}[${i}] has [${found}]`);
        }
        shape = found;
    }
    return [items.length, ...shape ?? []];
}

// The type of elements that came without one.
function kindOf(elements) {
    const kinds = new Set();
    for (const element of elements)
        kinds.add(typeof element);
    if (kinds.size === 0 || (kinds.size === 1 && kinds.has('number')))
        return 'FLOAT32';
    if (kinds.size === 1 && kinds.has('boolean'))
        return 'BOOL';
    if (!kinds.has('boolean') && elements.every(element => typeof element === 'bigint' || Number.isSafeInteger(element)))
        return elements.some(element => typeof element === 'bigint' && element > INTEGERS.INT64[1]) ? 'UINT64' : 'INT64';
    throw new TypeError(`Tensor.from (): the elements are of different kinds: ${[...kinds].join(', ')}; give numbers only, or say which type`);
}

function convertElement(kind, element, i) {
    if (typeof element === 'number' && (kind === 'FLOAT32' || kind === 'FLOAT64') && !(Math.abs(element) >= LIMITS.FLOAT32 && kind in LIMITS && Number.isFinite(element)))
        return element;         // nearly always
    const wrong = (Type, needed) => new Type(`Tensor.from (): element ${i} is ${show(element)}; ${needed}`), name = kind.toLowerCase();
    if (kind === 'BOOL') {
        if (typeof element === 'boolean' || element === 0 || element === 1 || element === 0n || element === 1n)
            return Number(element);
        throw wrong(TypeError, 'a boolean, 0 or 1 is needed for bool');
    }
    if (kind in INTEGERS) {
        const [least, most] = INTEGERS[kind];
        if (typeof element === 'number' && !Number.isInteger(element))
            throw wrong(RangeError, `an integer is needed for ${name}`);
        const integer = BigInt(element);
        if (integer < least || integer > most)
            throw wrong(RangeError, `${name} is from ${least} to ${most}`);
        return TYPED[kind].BYTES_PER_ELEMENT === 8 ? integer : Number(integer);
    }
    const number = Number(element);
    if (typeof element === 'bigint' ? !Number.isFinite(number) || Math.abs(number) >= LIMITS[kind] : Number.isFinite(number) && Math.abs(number) >= LIMITS[kind])
        throw wrong(RangeError, `it is too large for ${name}`);
    return number;
}

function init(Ortrain, toMember, toInteger) {
    function typedArrayOf(dtype) {
        for (const name in TYPED) {
            if (Ortrain.DType[name] === dtype)
                return TYPED[name];
        }
        throw new TypeError('there is no typed array for this type of elements');
    }

    function keyOf(dtype) {
        const key = Object.keys(TYPED).find(name => Ortrain.DType[name] === dtype);
        if (key === undefined)
            throw new TypeError('Tensor.from (): there is no typed array for this type of elements');
        return key;
    }

    function fromTyped(kind, data, shape) {
        const bytes = new GLib.Bytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
        return Ortrain.Tensor.new_for_bytes(Ortrain.DType[kind], shape, bytes);
    }

    // Tensor.from (numbers, nested arrays or a typed array[, shape[, dtype]]): what the elements are converted to without a
    // dtype is float32 for numbers, int64 for BigInts, bool for booleans; a typed array's are as they are.
    Ortrain.Tensor.from = function (data, shape, dtype) {
        const kind = dtype === undefined || dtype === null ? null : keyOf(toMember('Tensor.from (): dtype', dtype, Ortrain.DType));
        if (shape !== undefined && shape !== null) {
            if (!isList(shape))
                throw new TypeError(`Tensor.from (): shape needs an array of integers, not ${show(shape)}`);
            shape = Array.from(shape, (n, i) => toInteger(`Tensor.from (): shape[${i}]`, n, INTEGERS.INT64));
        } else
            shape = null;
        if (data instanceof Ortrain.Tensor && kind === null)
            return shape === null ? data : data.reshape(shape);
        if (data instanceof ArrayBuffer || data instanceof DataView)
            throw new TypeError(`Tensor.from (): ${show(data)} has no type of elements: give a typed array over it, such as new Float32Array (buffer)`);
        if (isTyped(data)) {
            const own = data instanceof Uint8ClampedArray ? 'UINT8' : Object.keys(TYPED).find(name => data instanceof TYPED[name]);
            const asBits = BITS.includes(kind) && TYPED[kind] === TYPED[own];
            if (kind === null || kind === own || asBits)
                return fromTyped(kind ?? own, data, shape ?? [data.length]);
        }
        const elements = [], found = flatten(data instanceof Ortrain.Tensor ? data.toTypedArray() : data, elements, []);
        const wanted = kind ?? kindOf(elements), stored = wanted === 'FLOAT16' || wanted === 'BFLOAT16' ? 'FLOAT32' : wanted;
        const array = new TYPED[stored](elements.length);
        for (let i = 0; i < elements.length; i++)
            array[i] = convertElement(wanted, elements[i], i);
        const tensor = fromTyped(stored, array, shape ?? found);
        return stored === wanted ? tensor : tensor.cast(Ortrain.DType[wanted]);
    };

    // The elements as a typed array. Up to GJS 1.80 it lies over the tensor's memory, later it is a copy.
    Ortrain.Tensor.prototype.toTypedArray = function () {
        const bytes = this.get_bytes().toArray();
        const type = typedArrayOf(this.get_dtype());
        if (bytes.byteOffset % type.BYTES_PER_ELEMENT === 0)
            return new type(bytes.buffer, bytes.byteOffset, bytes.byteLength / type.BYTES_PER_ELEMENT);
        return new type(bytes.slice().buffer);
    };

    Object.defineProperty(Ortrain.Tensor.prototype, 'shape', {
        get() {
            return this.get_dims().map(Number);
        },
        configurable: true,
    });

    // {name: tensor, or what Tensor.from () takes, …}
    function toDict(values) {
        if (values === null || values === undefined || values instanceof Ortrain.TensorDict)
            return values;
        if (typeof values !== 'object' || isList(values) || values instanceof GObject.Object)
            throw new TypeError(`an object of tensors is needed, {name: tensor, …}, not ${show(values)}`);
        const dict = Ortrain.TensorDict.new();
        for (const name in values) {
            try {
                dict.set(name, Ortrain.Tensor.from(values[name]));
            } catch (error) {
                error.message = `${name}: ${error.message}`;
                throw error;
            }
        }
        return dict;
    }
    Ortrain.TensorDict.from = toDict;
    // {name: tensor, …}
    Ortrain.TensorDict.prototype.toObject = function () {
        const object = {};
        for (const name of this.get_names())
            object[name] = this.get(name);
        return object;
    };
    return toDict;
}
