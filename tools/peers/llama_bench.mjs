// Measures llama.cpp on a GGUF file through the npm package node-llama-cpp:
// decoding one sequence, decoding eight together, a prefill of 512 tokens.
// Batches go straight to its decoder; nothing is sampled in JavaScript.
//
// usage: node llama_bench.mjs MODEL [--threads N] [--context N] [--rounds N]
//                             [--flash 0|1] [--cpu] [--tokens 1,2,3]
// The package is looked up from the working directory (npm install
// --ignore-scripts node-llama-cpp). Prints one JSON object.
// --cpu counts seconds of CPU divided by the threads, not of the wall.
// --tokens prints the greedy continuation of these ids instead.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";
import path from "node:path";

const require = createRequire(path.join(process.cwd(), "x.js"));
const entry = pathToFileURL(require.resolve("node-llama-cpp")).href;
const {getLlama, LlamaLogLevel} = await import(entry);

const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {
        threads: {type: "string", default: "1"},
        context: {type: "string", default: "128"},
        rounds: {type: "string", default: "3"},
        steps: {type: "string", default: "24"},
        cpu: {type: "boolean", default: false},
        flash: {type: "string", default: "1"},
        tokens: {type: "string"},
        count: {type: "string", default: "16"},
    },
});
const threads = Number(values.threads);
const depth = Number(values.context); // tokens already there when decoding
const steps = Number(values.steps);
const PROMPT = 512;

const llama = await getLlama({
    gpu: false, build: "never", logLevel: LlamaLogLevel.error,
    maxThreads: threads,
});
const model = await llama.loadModel({modelPath: positionals[0]});
const context = await model.createContext({
    sequences: 8,
    contextSize: Math.max(PROMPT, depth + steps) + 64,
    batchSize: PROMPT,
    threads: {ideal: threads, min: threads},
    flashAttention: values.flash === "1",
});
const raw = context._ctx;
raw.setThreads(threads);

const vocab = 256;
const tokensFrom = (start, count) =>
    Uint32Array.from({length: count}, (_, i) => (start + 7 * i) % vocab);

async function evaluate(rows) { // [sequence, position, tokens]
    raw.initBatch(rows.reduce((sum, row) => sum + row[2].length, 0));
    for (const [sequence, position, tokens] of rows) {
        raw.addToBatch(sequence, position, tokens,
            Uint32Array.of(tokens.length - 1));
    }
    await raw.decodeBatch();
}

function now() { // seconds
    if (values.cpu) {
        const usage = process.cpuUsage();
        return (usage.user + usage.system) / 1e6 / threads;
    }
    return Number(process.hrtime.bigint()) / 1e9;
}

function clear() {
    for (let sequence = 0; sequence < 8; sequence++) {
        raw.disposeSequence(sequence);
    }
}

async function decodeRate(sequences) {
    clear();
    for (let s = 0; s < sequences; s++) {
        await evaluate([[s, 0, tokensFrom(s, depth)]]);
    }
    const begin = now();
    for (let step = 0; step < steps; step++) {
        const rows = [];
        for (let s = 0; s < sequences; s++) {
            rows.push([s, depth + step, Uint32Array.of((step + s) % vocab)]);
        }
        await evaluate(rows);
    }
    return sequences * steps / (now() - begin);
}

async function prefillRate() {
    clear();
    const begin = now();
    await evaluate([[0, 0, tokensFrom(1, PROMPT)]]);
    return PROMPT / (now() - begin);
}

async function greedy(prompt, count) {
    const sequence = context.getSequence();
    const out = [];
    for await (const token of sequence.evaluate(prompt, {temperature: 0})) {
        out.push(token);
        if (out.length >= count) {
            break;
        }
    }
    return out;
}

function median(list) {
    const sorted = [...list].sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
}

if (values.tokens) {
    const prompt = values.tokens.split(",").map(Number);
    console.log(JSON.stringify(await greedy(prompt, Number(values.count))));
} else {
    await prefillRate(); // warm
    const runs = {decode_1: [], decode_8: [], prefill_512: []};
    for (let round = 0; round < Number(values.rounds); round++) {
        runs.decode_1.push(await decodeRate(1));
        runs.decode_8.push(await decodeRate(8));
        runs.prefill_512.push(await prefillRate());
    }
    const out = {threads: raw.getThreads()};
    for (const [name, list] of Object.entries(runs)) {
        out[name] = median(list);
        out[name + "_runs"] = list;
    }
    console.log(JSON.stringify(out));
}
process.exit(0);
