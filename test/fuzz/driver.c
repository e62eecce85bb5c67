/* Runs a fuzz target over files and folders given as arguments, then over a
 * few thousand seeded mutations of them: the corpus as a plain test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void run_mutations(const uint8_t *data, size_t size)
{
    for (int round = 0; round < 300 && size > 0; round++) {
        uint8_t *copy = malloc(size);
        memcpy(copy, data, size);
        uint64_t edits = 1 + next_random() % 4;
        for (uint64_t i = 0; i < edits; i++) {
            copy[next_random() % size] = (uint8_t)next_random();
        }
        size_t cut = next_random() % 4 == 0 ? next_random() % size : size;
        LLVMFuzzerTestOneInput(copy, cut);
        free(copy);
    }
}

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return 0;
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    size_t got = fread(data, 1, (size_t)size, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, got);
    run_mutations(data, got);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int count = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder == NULL) {
            count += run_file(argv[i]);
            continue;
        }
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            char path[4096];
            snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            if (entry->d_name[0] != '.') {
                count += run_file(path);
            }
        }
        closedir(folder);
    }
    printf("%d corpus files\n", count);
    return 0;
}
